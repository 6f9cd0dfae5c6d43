// Renames fields that inherited messages name.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta, .members = {{"hidden_size", "width"}, {"heads", "num_heads"}});

using BetaConfig = alpha::AlphaConfig;
using BetaBlock = alpha::AlphaBlock;

}  // namespace modular::beta
