// Level 3 of the chain.
#pragma once

#include "modular/alpha.h"
#include "modular/beta.h"

namespace modular::gamma {
MODULAR_FAMILY(Gamma);

class GammaProjectionImpl : public beta::Its<alpha::AlphaProjectionImpl> {
 public:
  using AlphaProjectionImpl::AlphaProjectionImpl;

  Tensor forward(const Tensor& x) { return AlphaProjectionImpl::forward(x) * 2.0; }
};
TORCH_MODULE(GammaProjection);

}  // namespace modular::gamma
