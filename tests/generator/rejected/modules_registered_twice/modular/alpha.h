// A module under two names, and a parameter that a constructor puts into another module: the plan would split them
// twice.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
  int64_t num_heads = 4;
  int64_t head_dim = 2;
};

class AlphaLayersImpl : public Module {
 public:
  explicit AlphaLayersImpl(const AlphaConfig& config)
      : up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        same(register_module("same", up)) {
    other = register_module("other", up);
    third = register_module("third", linear(config.hidden_size, config.inner_size, false));
    third->weight = up->weight;
  }

  Tensor forward(const Tensor& x) { return up(x) + same(x) + other(x) + third(x); }

  nn::Linear up;
  nn::Linear same;
  nn::Linear other{nullptr};
  nn::Linear third{nullptr};
};
TORCH_MODULE(AlphaLayers);

}  // namespace modular::alpha
