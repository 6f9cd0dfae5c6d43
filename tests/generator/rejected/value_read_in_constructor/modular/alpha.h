// A constructor reads a tensor's value.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaScaledImpl : public Module {
 public:
  explicit AlphaScaledImpl(int64_t size) : weight(register_parameter("weight", torch::ones({size}))) {
    scale = weight.sum().item<double>();
  }

  Tensor weight;
  double scale;
};
TORCH_MODULE(AlphaScaled);

}  // namespace modular::alpha
