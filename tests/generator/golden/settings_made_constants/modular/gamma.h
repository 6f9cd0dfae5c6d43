// One of them is a field again.
#pragma once

#include "modular/beta.h"

namespace modular::gamma {
MODULAR_FAMILY(Gamma);

struct GammaConfig : beta::BetaConfig {
  bool bias = true;
};

using GammaProjection = beta::BetaProjection;

}  // namespace modular::gamma
