// One base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  bool bias = true;
};

/// One linear layer.
class AlphaProjectionImpl : public Module {
 public:
  explicit AlphaProjectionImpl(const AlphaConfig& config)
      : proj(register_module("proj", linear(config.hidden_size, config.hidden_size, config.bias))) {
    scale = 2.0;
  }

  Tensor forward(const Tensor& x) { return proj(x) * scale; }

  nn::Linear proj;
  double scale = 1.0;
};
TORCH_MODULE(AlphaProjection);

class AlphaBlockImpl : public Module {
 public:
  explicit AlphaBlockImpl(const AlphaConfig& config) : inner(register_module("inner", AlphaProjection(config))) {}
  Tensor forward(const Tensor& x) { return inner(x); }
  AlphaProjection inner;
};
TORCH_MODULE(AlphaBlock);

}  // namespace modular::alpha
