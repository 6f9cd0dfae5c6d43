// Level 9 of the chain.
#pragma once

#include "modular/theta.h"

namespace modular::iota {
MODULAR_FAMILY(Iota);

class IotaBlockImpl : public theta::ThetaBlockImpl {
 public:
  using ThetaBlockImpl::ThetaBlockImpl;

  Tensor level_8(const Tensor& x) { return forward(x); }
};
TORCH_MODULE(IotaBlock);

}  // namespace modular::iota
