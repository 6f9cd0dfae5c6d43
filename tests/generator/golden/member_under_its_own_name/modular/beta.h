// A variable that is initialized from the base's member of its name.
#pragma once
#include "modular/alpha.h"
namespace modular::beta {
MODULAR_FAMILY(Beta);
class BetaActsImpl : public alpha::AlphaActsImpl {
 public:
  using AlphaActsImpl::AlphaActsImpl;
  Tensor expression(const Tensor& x) {
    const double scale = AlphaActsImpl::scale * 2.0;
    return x * scale;
  }
  Tensor other(const Tensor& x, double scale) { return x * scale * AlphaActsImpl::scale; }
};
TORCH_MODULE(BetaActs);
}  // namespace modular::beta
