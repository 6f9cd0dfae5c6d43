// A layer that is called in the body of a macro, where no parallel call can be placed.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
};

#define ALPHA_DOWN(x) down(torch::silu(x))

class AlphaMLPImpl : public Module {
 public:
  explicit AlphaMLPImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x) { return ALPHA_DOWN(gate(x) * up(x)); }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaMLP);

#undef ALPHA_DOWN

}  // namespace modular::alpha
