// An inherited member is made of another type without being declared again.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {

MODULAR_FAMILY(Beta);

class BetaMLPImpl : public alpha::AlphaMLPImpl {
 public:
  explicit BetaMLPImpl(const alpha::AlphaConfig& config) : AlphaMLPImpl(config) {
    proj = LayerNorm(config.hidden_size, 1e-5);
  }
};

}  // namespace modular::beta
