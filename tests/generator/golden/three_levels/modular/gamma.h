// A family that derives from one that derives: GammaBlock is alpha's block of the projection that beta changed, changed once more.
#pragma once

#include "modular/beta.h"

namespace modular::gamma {
MODULAR_FAMILY(Gamma);

class GammaProjectionImpl : public beta::BetaProjectionImpl {
 public:
  using BetaProjectionImpl::BetaProjectionImpl;

  Tensor forward(const Tensor& x) { return BetaProjectionImpl::forward(x) + 1.0; }
};
TORCH_MODULE(GammaProjection);

using GammaBlock = beta::BetaBlock;

}  // namespace modular::gamma
