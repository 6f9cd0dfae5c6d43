// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

/// A scale.
class AlphaScaleImpl : public Module {
 public:
  AlphaScaleImpl(int64_t size, double factor)
      : weight(register_parameter("weight", torch::ones({size}))), factor(factor) {}

  /// What every scale does: [batch, size].
  Tensor forward(const Tensor& x) { return x * weight * factor; }

  // Two overloads, of which one is redefined.
  Tensor twice(const Tensor& x) { return forward(forward(x)); }
  Tensor twice(const Tensor& x, double extra) { return forward(forward(x)) * extra; }

  void reset_parameters() override { init::ones_(weight); }

  Tensor weight;  // [size]

  double factor;  // not learned
};
TORCH_MODULE(AlphaScale);

}  // namespace modular::alpha
