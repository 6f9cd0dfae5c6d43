// An unnamed union, which C++ sets to zero in a new object of a class without constructors.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaBox : alpha::AlphaBox {
  int64_t number() const { return whole; }
};

}  // namespace modular::beta
