// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
};

class AlphaMixImpl : public Module {
 public:
  AlphaMixImpl(const AlphaConfig& config, int64_t inner, double factor = 1.0)
      // From hidden to inner.
      : up(register_module("up", linear(config.hidden_size, inner, true))),
        down(register_module("down", linear(inner, config.hidden_size, true))),
        factor(factor) {
    // A table that is not a parameter.
    table = register_buffer("table", torch::arange(inner));
    offset = factor + 1.0;
    for (int64_t i = 0; i < inner; ++i) offset += 1.0;
  }

  Tensor forward(const Tensor& x) { return down(up(x)) * factor + offset; }

  nn::Linear up;
  nn::Linear down;
  double factor;
  Tensor table;  // [inner]
  double offset;
};
TORCH_MODULE(AlphaMix);

}  // namespace modular::alpha
