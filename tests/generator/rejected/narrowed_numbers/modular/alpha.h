// Numbers that a conversion changes: C++'s number counts, not the one that was written.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
  int64_t num_heads = 4;
};

class AlphaLayersImpl : public Module {
 public:
  explicit AlphaLayersImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))),
        num_heads(config.num_heads) {}

  Tensor to_byte(const Tensor& x) {
    const int8_t dim = 255;
    return x + down(up(x) * torch::tanh(gate(x).sum(dim, true)));
  }
  Tensor to_integer(const Tensor& x) {
    const int64_t few = num_heads * 0.75;
    return x * (few * 4 >= num_heads * 3 ? 2.0 : 3.0);
  }
  Tensor to_smaller_integer(const Tensor& x) {
    const auto few = static_cast<int32_t>(num_heads);
    return down(up(x).view({x.size(0), x.size(1), few, -1}).flatten(2));
  }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  TP_LOCAL int64_t num_heads;
};
TORCH_MODULE(AlphaLayers);

}  // namespace modular::alpha
