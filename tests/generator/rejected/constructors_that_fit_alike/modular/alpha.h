// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaBox {
  explicit AlphaBox(int64_t n, int64_t m = 4) : a(n * 10 + m) {}
  int64_t a;
};

}  // namespace modular::alpha
