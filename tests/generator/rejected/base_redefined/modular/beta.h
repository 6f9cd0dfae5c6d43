// The base of an inherited class is redefined: BetaForPairs would continue with Alpha's, everything else with Beta's.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaModelImpl : public alpha::AlphaModelImpl {
 public:
  using AlphaModelImpl::AlphaModelImpl;
  Tensor forward(const Tensor& x) { return at::silu(proj(x)); }
};
TORCH_MODULE(BetaModel);

using BetaForPairs = alpha::AlphaForPairs;

}  // namespace modular::beta
