// Level 10 of the chain.
#pragma once

#include "modular/iota.h"
#include "modular/zeta.h"

namespace modular::kappa {
MODULAR_FAMILY(Kappa);

struct KappaConfig : iota::Its<zeta::ZetaConfig> {
  double scale_9 = 9.0;
};

}  // namespace modular::kappa
