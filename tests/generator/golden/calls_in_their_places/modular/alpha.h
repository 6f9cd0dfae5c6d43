// Calls where C++ evaluates what they read: declarators in a row, assignments in conditions, hooks of sums.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
};

class AlphaLayersImpl : public Module {
 public:
  explicit AlphaLayersImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor declarators(const Tensor& x) {
    const Tensor half = x * 0.5, one = up(half), other = gate(half);
    return x + down(torch::silu(one) * other);
  }
  Tensor conditions(const Tensor& x) {
    Tensor y;
    const bool is_long = x.dim() > 3 && (y = x * 2.0).defined() && up(y).defined();
    return is_long ? x : x + down(torch::silu(up(x)));
  }
  Tensor hooks(const Tensor& x) {
    const Tensor y = down(torch::silu(up(x)));
    const Tensor sum = y * 2.0 + down(torch::silu(gate(x)));
    sum.register_hook([](const Tensor& gradient) { return gradient * gradient; });
    return x + sum;
  }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaLayers);

}  // namespace modular::alpha
