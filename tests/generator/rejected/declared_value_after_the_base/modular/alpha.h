// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaPadImpl : public Module {
 public:
  AlphaPadImpl() { size = 3; }

  Tensor forward(const Tensor& x) { return x + size; }

  int64_t size = 1;
};
TORCH_MODULE(AlphaPad);
}  // namespace modular::alpha
