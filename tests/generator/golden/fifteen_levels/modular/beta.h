// Level 2 of the chain.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaConfig : alpha::AlphaConfig {
  double scale_1 = 1.0;
};

}  // namespace modular::beta
