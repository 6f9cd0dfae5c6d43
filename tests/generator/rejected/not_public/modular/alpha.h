// A constructor without `public:` before it: a holder cannot make such a module, which shows only where it does.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
};

class AlphaProjectionImpl : public Module {
  explicit AlphaProjectionImpl(const AlphaConfig& config)
      : proj(register_module("proj", linear(config.hidden_size, config.hidden_size, false))) {}

 public:
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
