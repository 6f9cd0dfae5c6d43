// The base's constructor with its parameters bound; assignments to the same target replace the inherited ones in place, others follow.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaConfig : alpha::AlphaConfig {
  bool bias = false;
};

class BetaMixImpl : public alpha::AlphaMixImpl {
 public:
  explicit BetaMixImpl(const BetaConfig& config) : AlphaMixImpl(config, config.inner_size), gain(config.inner_size * 0.5) {
    // Without a bias.
    up = register_module("up", linear(config.hidden_size, config.inner_size, config.bias));
    table = register_buffer("table", torch::zeros({config.inner_size}));
    offset += gain;
  }

  double gain;
};
TORCH_MODULE(BetaMix);

}  // namespace modular::beta
