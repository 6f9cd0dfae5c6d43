// The same, where the class is written out but names the inherited one as its base.
#pragma once

#include "modular/alpha.h"

namespace modular::gamma {
MODULAR_FAMILY(Gamma);

class GammaModelImpl : public alpha::AlphaModelImpl {
 public:
  using AlphaModelImpl::AlphaModelImpl;
  Tensor forward(const Tensor& x) { return at::silu(proj(x)); }
};
TORCH_MODULE(GammaModel);

class GammaForPairsImpl : public alpha::AlphaForPairsImpl {
 public:
  using AlphaForPairsImpl::AlphaForPairsImpl;
};
TORCH_MODULE(GammaForPairs);

}  // namespace modular::gamma
