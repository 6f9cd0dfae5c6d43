// The first of fifteen: each family derives from the one before it, in a file of its own.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
};

/// The Alpha projection.
class AlphaProjectionImpl : public Module {
 public:
  explicit AlphaProjectionImpl(const AlphaConfig& config)
      : proj(register_module("proj", linear(config.hidden_size, config.hidden_size, true))) {}

  Tensor forward(const Tensor& x) { return proj(x); }

  nn::Linear proj;
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
