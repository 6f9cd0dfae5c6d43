// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaSizedImpl : public Module {
 public:
  AlphaSizedImpl(int64_t size, int64_t rows)
      : rows(rows), weight(register_parameter("weight", torch::ones({size}))) {}

  int64_t rows;
  Tensor weight;
};
TORCH_MODULE(AlphaSized);

}  // namespace modular::alpha
