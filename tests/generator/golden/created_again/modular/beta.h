// remove() in a constructor: the member is created again afterwards, in a branch, in its new place.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaConfig : alpha::AlphaConfig {
  bool wide = false;
};

class BetaProjectionImpl : public alpha::AlphaProjectionImpl {
 public:
  explicit BetaProjectionImpl(const BetaConfig& config) : AlphaProjectionImpl(config) {
    remove(proj);
    if (config.wide) {
      proj = register_module("proj", linear(config.hidden_size, 2 * config.hidden_size, config.bias));
    } else {
      proj = register_module("proj", linear(config.hidden_size, config.hidden_size, config.bias));
    }
  }

  nn::Linear proj{nullptr};
};
TORCH_MODULE(BetaProjection);

}  // namespace modular::beta
