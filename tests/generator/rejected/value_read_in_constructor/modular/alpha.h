// A constructor reads a tensor's value, or hooks into a gradient, of which a rank has a part.
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

class AlphaNormedImpl : public Module {
 public:
  explicit AlphaNormedImpl(int64_t size) : weight(register_parameter("weight", torch::ones({size}))) {
    weight.register_hook([](const Tensor& gradient) { return gradient / gradient.norm(); });
  }

  void reset_parameters() override {
    Module::reset_parameters();
    init::ones_(weight);
    weight.register_hook([](const Tensor& gradient) { return gradient.clamp(-1.0, 1.0); });
  }

  Tensor weight;
};
TORCH_MODULE(AlphaNormed);

}  // namespace modular::alpha
