// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

#define SCALE(x) ((x)*2)
struct AlphaBox {
  int64_t size() const { return SCALE(4); }
#undef SCALE
#define SCALE(x) ((x)*3)
  int64_t width() const { return SCALE(4); }
};
#undef SCALE

}  // namespace modular::alpha
