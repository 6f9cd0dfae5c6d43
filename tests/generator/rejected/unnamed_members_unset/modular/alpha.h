// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaBox {
  union {
    int64_t whole;
    double real;
  };
  AlphaBox() { whole = 3; }
};

}  // namespace modular::alpha
