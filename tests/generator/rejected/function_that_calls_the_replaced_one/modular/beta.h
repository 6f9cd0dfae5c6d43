// What the base's function does, and more: in this family, both names are of one function.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaBox : alpha::AlphaBox {
  int64_t b = 2;
};

inline int64_t beta_scale(int64_t n) { return alpha::alpha_scale(n) + 1; }

inline int64_t peek(const BetaBox& box) { return alpha::peek(box) + box.b + beta_scale(1); }

}  // namespace modular::beta
