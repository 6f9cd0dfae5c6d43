// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  std::optional<int64_t> head_dim;

  void finish() {
    if (hidden_size < 1) throw ConfigError("hidden_size must be at least 1");
    if (!head_dim) head_dim = hidden_size;
  }
};

class AlphaScaleImpl : public Module {
 public:
  explicit AlphaScaleImpl(const AlphaConfig& config)
      : weight(register_parameter("weight", torch::ones({*config.head_dim}))) {}

  Tensor forward(const Tensor& x) { return x * weight; }

  Tensor weight;  // [head]
};
TORCH_MODULE(AlphaScale);

}  // namespace modular::alpha
