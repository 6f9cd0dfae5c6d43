// remake where no inherited constructor registers the member.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaProjectionImpl : public alpha::AlphaProjectionImpl {
 public:
  explicit BetaProjectionImpl(const alpha::AlphaConfig& config) : AlphaProjectionImpl(config) {
    gate = remake(gate, linear(config.hidden_size, config.hidden_size, /*bias=*/false));
  }

  nn::Linear gate{nullptr};
};

}  // namespace modular::beta
