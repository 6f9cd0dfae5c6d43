// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaNumber {
  int64_t next() {
    static int64_t count = 0;
    return ++count;
  }
};

}  // namespace modular::alpha
