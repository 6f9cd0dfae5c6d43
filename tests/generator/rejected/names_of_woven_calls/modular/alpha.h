// What calls that modgen writes name must not mean something else where they stand.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {

MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
};

struct AlphaTools {
  static Tensor enter(const Tensor& x) { return x * 2.0; }
};

class AlphaMLPImpl : public Module {
 public:
  using tp = AlphaTools;

  explicit AlphaMLPImpl(const AlphaConfig& config)
      : up(linear(config.hidden_size, config.hidden_size, false)),
        down(linear(config.hidden_size, config.hidden_size, false)) {}

  Tensor forward(const Tensor& x) { return down(up(x)); }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};

}  // namespace modular::alpha
