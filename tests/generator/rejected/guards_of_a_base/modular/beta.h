// A statement that would run before the end of a guard in the base's constructor.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaScaleImpl : public alpha::AlphaScaleImpl {
 public:
  explicit BetaScaleImpl(int64_t size) : AlphaScaleImpl(size) {
    shift = register_parameter("shift", torch::zeros({size}));
  }
  Tensor shift;
};
TORCH_MODULE(BetaScale);

}  // namespace modular::beta
