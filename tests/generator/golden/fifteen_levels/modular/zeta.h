// Level 6 of the chain.
#pragma once

#include "modular/beta.h"
#include "modular/epsilon.h"

namespace modular::zeta {
MODULAR_FAMILY(Zeta);

struct ZetaConfig : epsilon::Its<beta::BetaConfig> {
  double scale_5 = 5.0;
};

}  // namespace modular::zeta
