// The base of beta.h.
#pragma once
#include "modular/modular.h"
namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaActsImpl : public Module {
 public:
  explicit AlphaActsImpl(double scale) : scale(scale) {}
  Tensor expression(const Tensor& x) { return x * scale; }
  Tensor statements(const Tensor& x) {
    const Tensor y = x + 1.0;
    return y * scale;
  }
  Tensor branch(const Tensor& x) {
    const Tensor y = x.abs();
    return y * factor();
  }
  double factor() { return 3.0; }
  double scale;
};
TORCH_MODULE(AlphaActs);
}  // namespace modular::alpha
