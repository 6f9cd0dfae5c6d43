// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaScaleImpl : public Module {
 public:
  explicit AlphaScaleImpl(int64_t size) {
    torch::NoGradGuard guard;
    scale = register_parameter("scale", torch::ones({size}));
  }
  Tensor scale;
};
TORCH_MODULE(AlphaScale);

}  // namespace modular::alpha
