// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaSquareImpl : public Module {
 public:
  explicit AlphaSquareImpl(int64_t size) : weight(register_parameter("weight", torch::ones({size, size}))) {}

  Tensor weight;
};
TORCH_MODULE(AlphaSquare);

}  // namespace modular::alpha
