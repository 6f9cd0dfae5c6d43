// Members with the names of enumerators that inherited members name, also in their types and templates.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaBox : alpha::AlphaBox {
  static constexpr int64_t kFast = 5;
  enum { kSlow = 7 };
  int64_t sum() const { return kFast + kSlow + alpha::kFast + cell(); }
};

}  // namespace modular::beta
