// Level 7 of the chain.
#pragma once

#include "modular/gamma.h"
#include "modular/zeta.h"

namespace modular::eta {
MODULAR_FAMILY(Eta);

class EtaProjectionImpl : public zeta::Its<gamma::GammaProjectionImpl> {
 public:
  using GammaProjectionImpl::GammaProjectionImpl;

  Tensor forward(const Tensor& x) { return GammaProjectionImpl::forward(x) * 6.0; }
};
TORCH_MODULE(EtaProjection);

}  // namespace modular::eta
