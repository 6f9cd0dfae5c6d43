// There is no such member.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaConfig : alpha::AlphaConfig {
 private:
  using AlphaConfig::biass;
};

}  // namespace modular::beta
