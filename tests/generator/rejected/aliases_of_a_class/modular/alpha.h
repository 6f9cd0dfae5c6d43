// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaRange {
  using number = int32_t;
  int64_t top() const { return std::numeric_limits<number>::max(); }
};

}  // namespace modular::alpha
