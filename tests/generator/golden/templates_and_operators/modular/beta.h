// Function templates, operators, `if constexpr` and lambdas that capture `this` are inherited and redefined like all else.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaShift : alpha::AlphaShift {
  Tensor operator()(const Tensor& x) const { return AlphaShift::operator()(x) * 2.0; }
};

using BetaSum = alpha::AlphaSum;

class BetaApplyImpl : public alpha::AlphaApplyImpl {
 public:
  template <class Function>
  Tensor apply(const Tensor& x, Function&& function) {
    return function(x).contiguous();
  }

  Tensor operator()(const Tensor& x) { return forward(x); }
};
TORCH_MODULE(BetaApply);

}  // namespace modular::beta
