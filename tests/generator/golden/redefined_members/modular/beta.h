// A redefined member is where the inherited one was and keeps its comment; new ones come after those of their kind.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaScaleImpl : public alpha::AlphaScaleImpl {
 public:
  using AlphaScaleImpl::AlphaScaleImpl;
  using AlphaScaleImpl::twice;  // C++ would hide the other overload

  Tensor forward(const Tensor& x) { return x * (1.0 + weight); }
  Tensor twice(const Tensor& x, double extra) { return forward(x) * extra; }

  void reset_parameters() override { init::zeros_(weight); }

  // New here.
  Tensor thrice(const Tensor& x) { return forward(twice(x)); }

  double factor = 0.5;    // redeclared
  int64_t calls = 0;      // new
};
TORCH_MODULE(BetaScale);

}  // namespace modular::beta
