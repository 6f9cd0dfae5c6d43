// Classes of two bases: gamma's norm on beta's projection.
#pragma once

#include "modular/beta.h"
#include "modular/gamma.h"

namespace modular::delta {
MODULAR_FAMILY(Delta);

struct DeltaConfig : beta::BetaConfig {
  double norm_eps = 1e-5;
};

struct DeltaProjectionImpl : Both<beta::BetaProjectionImpl, gamma::GammaProjectionImpl> {};

using DeltaBlock = alpha::AlphaBlock;

/// With a method that both could have had, and a layer of its own.
struct DeltaWideProjectionImpl : Both<beta::BetaProjectionImpl, gamma::GammaProjectionImpl> {
  explicit DeltaWideProjectionImpl(const DeltaConfig& config)
      : GammaProjectionImpl(config), last(linear(config.hidden_size, 2 * config.hidden_size, /*bias=*/false)) {
    scale = 4.0;
  }

  Tensor finished(const Tensor& x) { return last(x * scale); }

  nn::Linear last;
};

}  // namespace modular::delta
