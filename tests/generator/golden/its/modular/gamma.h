// beta::Its<…> names a class that family beta infers and never declares: alpha's block of beta's projections.
#pragma once

#include "modular/alpha.h"
#include "modular/beta.h"

namespace modular::gamma {
MODULAR_FAMILY(Gamma);

class GammaBlockImpl : public beta::Its<alpha::AlphaBlockImpl> {
 public:
  using AlphaBlockImpl::AlphaBlockImpl;

  Tensor forward(const Tensor& x) { return AlphaBlockImpl::forward(x) + x; }
};
TORCH_MODULE(GammaBlock);

}  // namespace modular::gamma
