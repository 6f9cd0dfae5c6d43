// The base of beta.h.
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

}  // namespace modular::alpha
