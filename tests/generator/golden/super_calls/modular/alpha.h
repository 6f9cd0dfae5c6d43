// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaActsImpl : public Module {
 public:
  AlphaActsImpl() = default;

  Tensor one(const Tensor& x) { return x + 1.0; }
  Tensor two(const Tensor& x, double factor) {
    // Doubled.
    const Tensor doubled = x * factor;
    return doubled + doubled;
  }
  void three(Tensor& x) {
    x = x + 1.0;
    x = x * 2.0;
  }
  Tensor four(const Tensor& x) {
    if (x.dim() == 1) return x;
    return x.flatten();
  }
};
TORCH_MODULE(AlphaActs);

}  // namespace modular::alpha
