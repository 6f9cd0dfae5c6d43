// Both<…> of a class and one that derives from it: that one alone would do.
#pragma once

#include "modular/beta.h"
#include "modular/gamma.h"

namespace modular::delta {
MODULAR_FAMILY(Delta);

struct DeltaConfig : beta::BetaConfig {
  double norm_eps = 1e-5;
};

struct DeltaSameImpl : Both<alpha::AlphaProjectionImpl, gamma::GammaProjectionImpl> {};

}  // namespace modular::delta
