// Fields that C++ leaves as they are. An object of its own is assigned as a whole in both.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaStats : alpha::AlphaStats {
  int64_t all_steps = 0;
};
struct BetaUndo : alpha::AlphaUndo {
  int64_t changes = 0;
};
struct BetaBest : alpha::AlphaBest {
  int64_t changes = 0;
};

}  // namespace modular::beta
