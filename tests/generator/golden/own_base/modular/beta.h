// A class whose base is of its own family: what derives from it names its own base, or leaves both as they are (gamma).
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

class BetaForPairsImpl : public BetaModelImpl {
 public:
  using BetaModelImpl::BetaModelImpl;
  Tensor score(const Tensor& x, const Tensor& y) { return (forward(x) * forward(y)).sum(-1); }
};
TORCH_MODULE(BetaForPairs);

}  // namespace modular::beta
