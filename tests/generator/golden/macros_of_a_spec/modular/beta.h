// Macros that inherited code uses come along; names in their arguments are renamed.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

using BetaSafe = alpha::AlphaSafe;

}  // namespace modular::beta
