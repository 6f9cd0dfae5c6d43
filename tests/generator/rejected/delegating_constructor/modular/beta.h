// A delegating constructor.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaProjectionImpl : public alpha::AlphaProjectionImpl {
 public:
  explicit BetaProjectionImpl(const alpha::AlphaConfig& config) : BetaProjectionImpl(config, 2.0) {}
  BetaProjectionImpl(const alpha::AlphaConfig& config, double gain) : AlphaProjectionImpl(config), gain(gain) {}

  double gain;
};
TORCH_MODULE(BetaProjection);

}  // namespace modular::beta
