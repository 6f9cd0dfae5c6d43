// Includes beta.h, which includes this.
#pragma once

#include "modular/beta.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {};

}  // namespace modular::alpha
