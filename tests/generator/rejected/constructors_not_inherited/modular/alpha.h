// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaCount {
  AlphaCount() : n(0) {}
  explicit AlphaCount(int64_t n) : n(n) {}
  int64_t n;
};

struct AlphaBox {
  AlphaCount count() const { return AlphaCount(5); }
};

}  // namespace modular::alpha
