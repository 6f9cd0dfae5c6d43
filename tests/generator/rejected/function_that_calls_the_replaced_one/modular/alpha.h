// Functions that a derived family replaces.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaBox {
  int64_t a = 1;
};

inline int64_t alpha_scale(int64_t n) { return n * 2; }

inline int64_t peek(const AlphaBox& box) { return box.a; }

}  // namespace modular::alpha
