// The base of gamma.h: another projection.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaProjectionImpl : public alpha::AlphaProjectionImpl {
 public:
  explicit BetaProjectionImpl(const alpha::AlphaConfig& config) : AlphaProjectionImpl(config), factor(2.0) {}

  Tensor forward(const Tensor& x) { return AlphaProjectionImpl::forward(x) * factor; }

  double factor;
};
TORCH_MODULE(BetaProjection);

using BetaBlock = alpha::AlphaBlock;

}  // namespace modular::beta
