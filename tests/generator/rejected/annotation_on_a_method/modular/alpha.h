// Annotations before a method, a parameter and a variable, which they cannot mark.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {

MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
};

class AlphaMLPImpl : public Module {
 public:
  explicit AlphaMLPImpl(const AlphaConfig& config)
      : up(linear(config.hidden_size, config.hidden_size, false)),
        down(linear(config.hidden_size, config.hidden_size, false)) {}

  TP_COLWISE Tensor forward(TP_LOCAL const Tensor& x) {
    TP_ROWWISE const Tensor y = up(x);
    return down(y);
  }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};

}  // namespace modular::alpha
