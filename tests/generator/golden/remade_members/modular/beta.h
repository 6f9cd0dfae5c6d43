// remake: members made again under the names that they have, and as what they are.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta, .members = {{"scale", "gain"}});

class BetaProjectionImpl : public alpha::AlphaProjectionImpl {
 public:
  explicit BetaProjectionImpl(const alpha::AlphaConfig& config) : AlphaProjectionImpl(config) {
    // without a bias
    proj = remake(proj, linear(config.hidden_size, 2 * config.hidden_size, /*bias=*/false));
    scale = remake(scale, torch::zeros({2 * config.hidden_size}));
    count = remake(count, torch::zeros({1}, at::kLong));
  }
};

class BetaSmallProjectionImpl : public BetaProjectionImpl {
 public:
  explicit BetaSmallProjectionImpl(const alpha::AlphaConfig& config) : BetaProjectionImpl(config) {
    proj = remake(proj, linear(config.hidden_size, 1, /*bias=*/false));  // over two levels
  }
};

}  // namespace modular::beta
