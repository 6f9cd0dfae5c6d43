// remake whose result becomes another member, or none, or that stands in a method.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaProjectionImpl : public alpha::AlphaProjectionImpl {
 public:
  explicit BetaProjectionImpl(const alpha::AlphaConfig& config) : AlphaProjectionImpl(config) {
    scale = remake(count, torch::ones({config.hidden_size}));
    remake(proj, linear(config.hidden_size, config.hidden_size, /*bias=*/false));
    AlphaProjectionImpl other(config);
    proj = remake(other.proj, linear(config.hidden_size, config.hidden_size, /*bias=*/false));
  }

  void widen() { proj = remake(proj, linear(1, 2, /*bias=*/false)); }
};

}  // namespace modular::beta
