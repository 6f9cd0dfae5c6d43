// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

inline int64_t times(int64_t n) { return n * 2; }

struct AlphaPart {
  int64_t n = 3;
};
inline int64_t weigh(const AlphaPart& part) { return part.n; }

struct AlphaBox {
  AlphaPart part;
  int64_t f() const { return times(3) + weigh(part); }
};

}  // namespace modular::alpha
