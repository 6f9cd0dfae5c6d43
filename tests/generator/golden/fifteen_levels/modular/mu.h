// Level 12 of the chain.
#pragma once

#include "modular/iota.h"
#include "modular/lamda.h"

namespace modular::mu {
MODULAR_FAMILY(Mu);

class MuBlockImpl : public lamda::Its<iota::IotaBlockImpl> {
 public:
  using IotaBlockImpl::IotaBlockImpl;

  Tensor level_11(const Tensor& x) { return forward(x); }
};
TORCH_MODULE(MuBlock);

}  // namespace modular::mu
