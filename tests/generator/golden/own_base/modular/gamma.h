// Neither class differs: the base of GammaForPairs is what GammaModel is.
#pragma once

#include "modular/alpha.h"

namespace modular::gamma {
MODULAR_FAMILY(Gamma);

using GammaModel = alpha::AlphaModel;
using GammaForPairs = alpha::AlphaForPairs;

}  // namespace modular::gamma
