// A variable of the caller has the name of a member that the inlined base method reads: the member is written
// this->name.
#pragma once
#include "modular/alpha.h"
namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaActsImpl : public alpha::AlphaActsImpl {
 public:
  using AlphaActsImpl::AlphaActsImpl;
  Tensor expression(const Tensor& x) {
    const double scale = 0.5;
    return AlphaActsImpl::expression(x) + scale;
  }
  Tensor statements(const Tensor& x) {
    const double scale = 0.5;
    Tensor z = x * scale;
    return AlphaActsImpl::statements(z);
  }
};
TORCH_MODULE(BetaActs);
}  // namespace modular::beta
