// A base's method called by its qualified name: its expression, its statements, or a private method that keeps its body.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaActsImpl : public alpha::AlphaActsImpl {
 public:
  Tensor one(const Tensor& x) { return AlphaActsImpl::one(x) * 3.0; }
  Tensor two(const Tensor& x, double factor) { return AlphaActsImpl::two(x, factor); }
  void three(Tensor& x) {
    AlphaActsImpl::three(x);
    x = x - 1.0;
  }
  Tensor four(const Tensor& x) {
    const Tensor flat = AlphaActsImpl::four(x);
    return own<Tensor>(AlphaActsImpl::one(flat));
  }
};
TORCH_MODULE(BetaActs);

}  // namespace modular::beta
