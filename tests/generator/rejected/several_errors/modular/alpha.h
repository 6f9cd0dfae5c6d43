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
      : proj(register_module("proj", linear(config.hidden_size, config.hidden_size, config.bias))) {}

  Tensor forward(const Tensor& x) { return proj(x); }

  nn::Linear proj;
};
TORCH_MODULE(AlphaProjection);

/// Two of them.
class AlphaBlockImpl : public Module {
 public:
  explicit AlphaBlockImpl(const AlphaConfig& config)
      : first(register_module("first", AlphaProjection(config))),
        second(register_module("second", AlphaProjection(config))) {}

  Tensor forward(const Tensor& x) { return second(first(x)); }

  AlphaProjection first;
  AlphaProjection second;
};
TORCH_MODULE(AlphaBlock);

}  // namespace modular::alpha
