// The inherited constructor does not create what remove() names.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaProjectionImpl : public alpha::AlphaProjectionImpl {
 public:
  explicit BetaProjectionImpl(const alpha::AlphaConfig& config) : AlphaProjectionImpl(config) {
    remove(extra);
    extra = register_module("extra", linear(1, 1, false));
  }

  nn::Linear extra{nullptr};
};
TORCH_MODULE(BetaProjection);

}  // namespace modular::beta
