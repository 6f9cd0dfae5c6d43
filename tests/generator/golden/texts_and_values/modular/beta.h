// Only what a message is made of is renamed: not what its condition compares, and what code looks up, holds or asks.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaBox : alpha::AlphaBox {
  int64_t more = 1;
};

}  // namespace modular::beta
