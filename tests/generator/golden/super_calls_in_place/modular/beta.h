// Where a base's method is called: as a statement, as the returned value, inside an expression, in a branch, in a lambda.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaActsImpl : public alpha::AlphaActsImpl {
 public:
  Tensor simple(const Tensor& x, double factor = 3.0) { return -AlphaActsImpl::simple(x + 1.0, factor).relu(); }
  Tensor early(const Tensor& x) {
    if (x.dim() == 1) {
      return AlphaActsImpl::early(x.unsqueeze(0));
    }
    return AlphaActsImpl::early(x) + 1.0;
  }
  Tensor local(const Tensor& x) {
    const Tensor y = x - 1.0;  // a name that the base's body has too
    return AlphaActsImpl::local(y);
  }
  void note(std::vector<Tensor>& seen, const Tensor& x) {
    if (x.defined()) AlphaActsImpl::note(seen, x);
    const auto again = [this](const Tensor& y) { return AlphaActsImpl::local(y); };
    AlphaActsImpl::note(seen, again(x).neg());
  }
  Tensor both(const Tensor& x) { return AlphaActsImpl::simple(x) + AlphaActsImpl::local(x); }
};
TORCH_MODULE(BetaActs);

}  // namespace modular::beta
