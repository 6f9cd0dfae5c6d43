// Includes of the base come along with the conditions around them.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

using BetaRoot = alpha::AlphaRoot;

}  // namespace modular::beta
