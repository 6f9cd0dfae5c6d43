// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
};

class AlphaMLPImpl : public Module {
 public:
  explicit AlphaMLPImpl(const AlphaConfig& config)
      : up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x) { return down(at::silu(up(x))); }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaMLP);

class AlphaLayerImpl : public Module {
 public:
  explicit AlphaLayerImpl(const AlphaConfig& config) : mlp(register_module("mlp", AlphaMLP(config))) {}

  Tensor forward(const Tensor& x) { return x + mlp(x); }

  AlphaMLP mlp;
};
TORCH_MODULE(AlphaLayer);

}  // namespace modular::alpha
