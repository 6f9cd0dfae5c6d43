// The same over a level that declares none of them.
#pragma once

#include "modular/beta.h"

namespace modular::gamma {
MODULAR_FAMILY(Gamma);

struct GammaMade : beta::BetaMade {
  std::string c = "c";
};

struct GammaCount : beta::BetaCount {
  int64_t c = 4;
};

using GammaSwapped = beta::BetaSwapped;

}  // namespace modular::gamma
