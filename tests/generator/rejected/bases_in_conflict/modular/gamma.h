// With a norm of what goes in.
#pragma once

#include "modular/alpha.h"

namespace modular::gamma {
MODULAR_FAMILY(Gamma);

struct GammaConfig : alpha::AlphaConfig {
  double norm_eps = 1e-6;
};

struct GammaProjectionImpl : alpha::AlphaProjectionImpl {
  explicit GammaProjectionImpl(const GammaConfig& config)
      : AlphaProjectionImpl(config), norm(LayerNorm(config.hidden_size, config.norm_eps)) {}

  Tensor prepare(const Tensor& x) { return norm(AlphaProjectionImpl::prepare(x)); }

  Tensor finished(const Tensor& x) { return x; }

  LayerNorm norm;
};

}  // namespace modular::gamma
