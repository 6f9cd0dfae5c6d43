// Buffers and parameters that share their memory with other ones, whose split and gradient they would not have.
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
      : up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))),
        scale(register_parameter("scale", torch::ones({config.inner_size}))),
        of_layer(register_buffer("of_layer", up->weight)),
        of_view(register_buffer("of_view", scale.detach().view({-1, 2}))),
        of_parameter(register_parameter("of_parameter", scale)),
        copied(register_buffer("copied", scale.clone())),
        of_sizes(register_buffer("of_sizes", torch::zeros({scale.size(0)}))) {
    const Tensor first = up->weight[0];
    of_variable = register_buffer("of_variable", first.t());
    assigned = down->weight;
    register_buffer("assigned", assigned);
  }
  Tensor forward(const Tensor& x) { return x + down(up(x) * scale); }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  TP_SHARD(0) Tensor scale;
  Tensor of_layer;
  Tensor of_view;
  Tensor of_parameter;
  Tensor copied;
  Tensor of_sizes;
  Tensor of_variable;
  Tensor assigned;
};
TORCH_MODULE(AlphaLayers);

}  // namespace modular::alpha
