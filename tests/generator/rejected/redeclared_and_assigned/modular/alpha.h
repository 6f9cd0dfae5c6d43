// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaScaleImpl : public Module {
 public:
  explicit AlphaScaleImpl(double factor) : scale(factor) {
    offset = factor;
    scale = scale * 2.0;
  }

  Tensor forward(const Tensor& x) { return x * scale + offset; }

  double scale;
  double offset;
};
TORCH_MODULE(AlphaScale);
}  // namespace modular::alpha
