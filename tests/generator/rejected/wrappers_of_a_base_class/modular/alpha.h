// The base of beta.h.
#pragma once

#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaCache {
  std::vector<int64_t> keys;
  int64_t add(int64_t key) {
    keys.push_back(key);
    return static_cast<int64_t>(keys.size());
  }
};
struct AlphaTable {
  AlphaCache cache;
};

}  // namespace modular::alpha
