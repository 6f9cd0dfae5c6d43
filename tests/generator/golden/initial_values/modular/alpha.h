// The standard deviation of initial weights is an argument of Module's constructor, which derived classes keep.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t size = 8;
  double initializer_range = 0.02;
};

class AlphaMLPImpl : public Module {
 public:
  explicit AlphaMLPImpl(const AlphaConfig& config)
      : Module(config.initializer_range),
        up(register_module("up", linear(config.size, 4 * config.size, false))),
        down(register_module("down", linear(4 * config.size, config.size, false))) {}

  Tensor forward(const Tensor& x) { return down(torch::relu(up(x))); }

  nn::Linear up;
  nn::Linear down;
};
TORCH_MODULE(AlphaMLP);

}  // namespace modular::alpha
