// A static variable of a method is one for both classes; flattened, each would have its own.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaFirst : alpha::AlphaNumber {};

struct BetaSecond : alpha::AlphaNumber {};

}  // namespace modular::beta
