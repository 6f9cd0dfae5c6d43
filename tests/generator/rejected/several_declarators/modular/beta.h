// A member that is declared together with others cannot be removed alone.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaConfig : alpha::AlphaConfig {
 private:
  using AlphaConfig::low;
};

}  // namespace modular::beta
