// Members that hold a module from the start, whose class is made of a config.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
};

/// One linear layer.
class AlphaProjectionImpl : public Module {
 public:
  explicit AlphaProjectionImpl(const AlphaConfig& config)
      : proj(register_module("proj", linear(config.hidden_size, config.hidden_size, /*bias=*/false))) {}

  Tensor forward(const Tensor& x) { return proj(x); }

  nn::Linear proj;
};
TORCH_MODULE(AlphaProjection);

/// A member that nothing is written for, and one that is made without arguments.
class AlphaBlockImpl : public Module {
 public:
  explicit AlphaBlockImpl(const AlphaConfig&) { second = register_module("second", AlphaProjection()); }

  Tensor forward(const Tensor& x) { return second(first(x)); }

  AlphaProjection first;
  AlphaProjection second{nullptr};
};
TORCH_MODULE(AlphaBlock);

}  // namespace modular::alpha
