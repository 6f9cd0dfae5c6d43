// And one that takes the alias as it is.
#pragma once

#include "modular/beta.h"

namespace modular::delta {
MODULAR_FAMILY(Delta);

using DeltaBlock = beta::BetaBlock;

}  // namespace modular::delta
