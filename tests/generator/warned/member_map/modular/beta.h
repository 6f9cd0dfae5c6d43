// Entries of the member map that match nothing.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta, .members = {{"proj", "projection"},
                                 {"porj", "projections"},
                                 {"AlphaOther::proj", "other"}});

using BetaProjection = alpha::AlphaProjection;

}  // namespace modular::beta
