// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaPoint {
  int64_t x = 4;
};

class AlphaSpaceImpl : public Module {
 public:
  int64_t first() { return point.x; }
  int64_t bytes() { return sizeof(AlphaPoint); }
  AlphaPoint point;
};
TORCH_MODULE(AlphaSpace);

}  // namespace modular::alpha
