// The body of an inherited macro names what would have to be renamed.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

using BetaBlock = alpha::AlphaBlock;

}  // namespace modular::beta
