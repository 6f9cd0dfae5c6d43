// The base of beta.h.
#pragma once

#include <string>
#include <unordered_map>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaSlot {
  int64_t used = 0, limit = 4;
};
struct AlphaPool {
  std::unordered_map<std::string, AlphaSlot> slots;
};

}  // namespace modular::alpha
