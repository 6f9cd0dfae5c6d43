// The base of gamma.h, which includes alpha.h.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

using BetaBlock = alpha::AlphaBlock;

}  // namespace modular::beta
