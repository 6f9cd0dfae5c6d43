// BetaProjection is inferred and declared, as something else.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

inline int64_t BetaConfig() { return 1; }

using BetaBlock = alpha::AlphaBlock;

}  // namespace modular::beta
