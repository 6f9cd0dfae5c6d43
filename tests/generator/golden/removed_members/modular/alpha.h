// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t size = 8;
  double dropout = 0.1;
};

class AlphaPairImpl : public Module {
 public:
  explicit AlphaPairImpl(const AlphaConfig& config)
      : left(register_module("left", linear(config.size, config.size, true))),
        right(register_module("right", linear(config.size, config.size, true))),
        dropout(config.dropout) {}

  Tensor forward(const Tensor& x) { return left(x) + right(x) * dropout; }
  Tensor only_right(const Tensor& x) { return right(x); }

  nn::Linear left;
  nn::Linear right;
  double dropout;
};
TORCH_MODULE(AlphaPair);

}  // namespace modular::alpha
