// Level 8 of the chain.
#pragma once

#include "modular/epsilon.h"
#include "modular/eta.h"

namespace modular::theta {
MODULAR_FAMILY(Theta);

class ThetaBlockImpl : public eta::Its<epsilon::EpsilonBlockImpl> {
 public:
  using EpsilonBlockImpl::EpsilonBlockImpl;

  Tensor level_7(const Tensor& x) { return forward(x); }
};
TORCH_MODULE(ThetaBlock);

}  // namespace modular::theta
