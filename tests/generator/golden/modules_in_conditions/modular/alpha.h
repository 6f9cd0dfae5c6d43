// Conditions test whether holders hold a module.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  bool gated = true;
};

class AlphaBlockImpl : public Module {
 public:
  explicit AlphaBlockImpl(const AlphaConfig& config)
      : up(linear(config.hidden_size, config.hidden_size, false)),
        gate(linear(config.hidden_size, config.hidden_size, false)),
        down(linear(config.hidden_size, config.hidden_size, false)),
        gated(config.gated) {}

  Tensor forward(const Tensor& x) {
    if (!down || (!gate && gated)) return x;
    return gate && gated ? down(up(x) * gate(x)) : down(up(x));
  }

  TP_COLWISE nn::Linear up;
  TP_COLWISE nn::Linear gate;
  TP_ROWWISE nn::Linear down;
  bool gated;
};

}  // namespace modular::alpha
