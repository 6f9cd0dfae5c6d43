// Level 13 of the chain.
#pragma once

#include "modular/mu.h"

namespace modular::nu {
MODULAR_FAMILY(Nu);

class NuBlockImpl : public mu::MuBlockImpl {
 public:
  using MuBlockImpl::MuBlockImpl;

  Tensor level_12(const Tensor& x) { return forward(x); }
};
TORCH_MODULE(NuBlock);

}  // namespace modular::nu
