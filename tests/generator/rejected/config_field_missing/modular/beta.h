// A field that inherited code reads is in no config: BetaConfig is none of alpha's.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaConfig : Config {
  int64_t hidden_size = 4;
};

using BetaBlock = alpha::AlphaBlock;

}  // namespace modular::beta
