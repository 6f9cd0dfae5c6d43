// A constructor that never runs its base's.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaProjectionImpl : public alpha::AlphaProjectionImpl {
 public:
  explicit BetaProjectionImpl(const alpha::AlphaConfig& config) { (void)config; }
};
TORCH_MODULE(BetaProjection);

}  // namespace modular::beta
