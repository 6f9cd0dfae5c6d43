// Level 4 of the chain.
#pragma once

#include "modular/alpha.h"
#include "modular/gamma.h"

namespace modular::delta {
MODULAR_FAMILY(Delta);

class DeltaBlockImpl : public gamma::Its<alpha::AlphaBlockImpl> {
 public:
  using AlphaBlockImpl::AlphaBlockImpl;

  Tensor level_3(const Tensor& x) { return forward(x); }
};
TORCH_MODULE(DeltaBlock);

}  // namespace modular::delta
