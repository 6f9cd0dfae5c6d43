// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaBox {
  friend int64_t peek(const AlphaBox& box);
  int64_t width = 3;
};
inline int64_t peek(const AlphaBox& box) { return box.width; }

}  // namespace modular::alpha
