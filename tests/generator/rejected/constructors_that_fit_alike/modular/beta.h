// C++ prefers a constructor to an inherited one that takes the same arguments.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaBox : alpha::AlphaBox {
  using AlphaBox::AlphaBox;
  explicit BetaBox(int64_t n) : AlphaBox(n, 9) {}
};

}  // namespace modular::beta
