// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

enum AlphaOrder : int64_t { kFirst = 1, kLast = 9 };

struct AlphaRow {
  int64_t last() const { return kLast * 2; }
};

}  // namespace modular::alpha
