// Modules and parameters whose names a constructor computes, and one that it unregisters: the plan lists names.
#pragma once

#include <string>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
  bool is_gated = false;
};

class AlphaLayersImpl : public Module {
 public:
  explicit AlphaLayersImpl(const AlphaConfig& config)
      : up(register_module(config.is_gated ? "gate" : "up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {
    const std::string name = "scale";
    scale = register_parameter(name, torch::ones({config.inner_size}));
    unregister_module("down");
  }
  Tensor forward(const Tensor& x) { return down(up(x) * scale); }
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  TP_SHARD(0) Tensor scale;
};
TORCH_MODULE(AlphaLayers);

}  // namespace modular::alpha
