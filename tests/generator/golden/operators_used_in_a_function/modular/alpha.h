// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

constexpr int64_t operator""_boxes(unsigned long long n) { return static_cast<int64_t>(n) * 10; }
inline int64_t alpha_half(int64_t n) { return n / 2; }

struct AlphaBox {
  int64_t number() const { return 3_boxes; }
};

}  // namespace modular::alpha
