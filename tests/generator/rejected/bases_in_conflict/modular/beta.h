// Without a bias, and with a gate on what comes out.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaConfig : alpha::AlphaConfig {
  double factor = 2.0;
};

struct BetaProjectionImpl : alpha::AlphaProjectionImpl {
  explicit BetaProjectionImpl(const BetaConfig& config)
      : AlphaProjectionImpl(config), gate(linear(config.hidden_size, config.hidden_size, /*bias=*/false)) {
    proj = remake(proj, linear(config.hidden_size, config.hidden_size, /*bias=*/false));
    scale = config.factor;
  }

  Tensor finished(const Tensor& x) { return AlphaProjectionImpl::finished(x) * torch::sigmoid(gate(x)); }

  nn::Linear gate;
};

}  // namespace modular::beta
