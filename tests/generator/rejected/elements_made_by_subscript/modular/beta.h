// C++ makes an AlphaSlot, flattened a BetaSlot.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaSlot : alpha::AlphaSlot {
  BetaSlot() { limit = 1; }
};
struct BetaPool : alpha::AlphaPool {
  int64_t limit() { return slots["x"].limit; }
  bool has() const { return slots.count("x") != 0 && slots.at("x").used > 0; }
};

}  // namespace modular::beta
