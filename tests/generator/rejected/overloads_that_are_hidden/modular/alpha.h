// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaBox {
  int64_t value() { return ++reads; }
  int64_t value() const { return reads; }
  int64_t twice() { return value() * 2; }
  int64_t reads = 0;
};

}  // namespace modular::alpha
