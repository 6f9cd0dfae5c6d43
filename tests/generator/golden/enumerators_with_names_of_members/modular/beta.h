// An enumerator is named with its namespace where a member, or a local enumerator, has its name.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaBox : alpha::AlphaBox {
  static constexpr int64_t kFast = 5;
  enum { kSlow = 9, kLeft = 3 };
};

}  // namespace modular::beta
