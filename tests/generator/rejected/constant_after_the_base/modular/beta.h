// A constant that needs what the base's body sets cannot be assigned after it.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaProjectionImpl : public alpha::AlphaProjectionImpl {
 public:
  explicit BetaProjectionImpl(const alpha::AlphaConfig& config) : AlphaProjectionImpl(config), twice(scale * 2.0) {}

  const double twice;
};
TORCH_MODULE(BetaProjection);

}  // namespace modular::beta
