// An overload next to a using-declaration of the base's function, which it would replace.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

using alpha::times;
inline int64_t times(double d) { return static_cast<int64_t>(d * 100); }

struct BetaBox : alpha::AlphaBox {
  int64_t g() const { return times(int64_t{4}) + times(0.5); }
};

}  // namespace modular::beta
