// An alias is a whole class in which nothing differs; what it reaches (BetaProjection, BetaConfig) is inferred.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

using BetaBlock = alpha::AlphaBlock;

}  // namespace modular::beta
