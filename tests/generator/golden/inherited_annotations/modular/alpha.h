// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t size = 8;
  int64_t inner = 16;
};

class AlphaMLPImpl : public Module {
 public:
  explicit AlphaMLPImpl(const AlphaConfig& config)
      : up(register_module("up", linear(config.size, config.inner, false))),
        down(register_module("down", linear(config.inner, config.size, false))) {}

  Tensor forward(const Tensor& x) { return down(at::silu(up(x))); }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaMLP);

}  // namespace modular::alpha
