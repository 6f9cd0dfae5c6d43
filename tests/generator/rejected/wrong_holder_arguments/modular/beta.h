// The inherited block constructs its projections with one argument, which fits no constructor any more.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaProjectionImpl : public alpha::AlphaProjectionImpl {
 public:
  BetaProjectionImpl(const alpha::AlphaConfig& config, int64_t layer) : AlphaProjectionImpl(config), layer(layer) {}

  int64_t layer;
};
TORCH_MODULE(BetaProjection);

using BetaBlock = alpha::AlphaBlock;

}  // namespace modular::beta
