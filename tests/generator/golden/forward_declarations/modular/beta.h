// Classes of another family that derive from them.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaBox : alpha::AlphaBox {
  int64_t volume() const { return area() * depth(*this); }
};

struct BetaLid : alpha::AlphaLid {
  int64_t height = 1;
};

}  // namespace modular::beta
