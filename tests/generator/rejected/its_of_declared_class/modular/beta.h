// The base of gamma.h, which declares a projection.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaProjectionImpl : public alpha::AlphaProjectionImpl {
 public:
  using AlphaProjectionImpl::AlphaProjectionImpl;
  Tensor forward(const Tensor& x) { return proj(x) * 3.0; }
};
TORCH_MODULE(BetaProjection);

}  // namespace modular::beta
