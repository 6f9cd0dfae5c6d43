// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;

  void finish() {
    if (hidden_size < 1) throw ConfigError("hidden_size must be at least 1");
  }
};

/// A linear layer, scaled.
class AlphaProjectionImpl : public Module {
 public:
  explicit AlphaProjectionImpl(const AlphaConfig& config)
      : config(config), proj(register_module("proj", linear(config.hidden_size, config.hidden_size, /*bias=*/false))) {}

  Tensor scaled(const Tensor& x) { return x * 2.0; }

  Tensor forward(const Tensor& x) { return scaled(proj(x)); }

  AlphaConfig config;
  nn::Linear proj;
};

}  // namespace modular::alpha
