// Uses family beta without including its spec: another spec happens to include it first.
#pragma once

#include "modular/alpha.h"

namespace modular::delta {
MODULAR_FAMILY(Delta);

using DeltaBlock = beta::BetaBlock;

}  // namespace modular::delta
