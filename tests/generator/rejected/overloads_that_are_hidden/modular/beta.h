// Inherited code calls an overload that C++ hides from all other code.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaBox : alpha::AlphaBox {
  int64_t value() const { return reads * 10; }
};

}  // namespace modular::beta
