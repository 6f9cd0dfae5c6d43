// The base of gamma.h, which only infers BetaBlock.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

using BetaModel = alpha::AlphaModel;

}  // namespace modular::beta
