// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  bool bias = true;
  bool gated = false;
  double factor = 1.0;
  bool tie_word_embeddings = true;

  void finish() {
    if (gated && !bias) throw ConfigError("a gate needs a bias");
  }

  double doubled() const { return 2.0 * factor; }
};

inline bool alpha_is_wide(const AlphaConfig& config) { return config.gated || config.hidden_size > 64; }

/// One linear layer.
class AlphaProjectionImpl : public Module {
 public:
  explicit AlphaProjectionImpl(const AlphaConfig& config)
      : config(config), proj(register_module("proj", linear(config.hidden_size, config.hidden_size, config.bias))) {}

  Tensor forward(const Tensor& x) {
    const Tensor result = proj(x) * config.factor;
    return this->config.gated ? torch::sigmoid(result) : result;
  }

  bool is_wide() const { return alpha_is_wide(config); }

  AlphaConfig config;
  nn::Linear proj;
};

}  // namespace modular::alpha
