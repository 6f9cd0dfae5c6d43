// A class of the name of a base's class that does not derive from it, and own code that means the base's.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaCache {
  alpha::AlphaCache* inner = nullptr;
  int64_t limit = 2;
  int64_t add(int64_t key) { return key > limit ? -1 : inner->add(key); }
};
struct BetaTable : alpha::AlphaTable {
  int64_t sum() {
    BetaCache own{&cache};
    return own.add(1) + own.add(5);
  }
};

}  // namespace modular::beta
