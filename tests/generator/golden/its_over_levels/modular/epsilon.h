// delta::Its<…> names beta's block as delta has it, whose gain is gamma's.
#pragma once

#include "modular/delta.h"

namespace modular::epsilon {
MODULAR_FAMILY(Epsilon);

class EpsilonBlockImpl : public delta::Its<beta::BetaBlockImpl> {
 public:
  using BetaBlockImpl::BetaBlockImpl;

  Tensor forward(const Tensor& x) { return BetaBlockImpl::forward(x) + 1.0; }
};
TORCH_MODULE(EpsilonBlock);

}  // namespace modular::epsilon
