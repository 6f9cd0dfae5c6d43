// Attributes, specifiers and default arguments stay with inherited members; a redefinition says its own.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaGaugeImpl : public alpha::AlphaGaugeImpl {
 public:
  void raise(double by = 2.0, int64_t times = 3) { level_ += by * static_cast<double>(times); }
  [[nodiscard]] Tensor forward(const Tensor& x) { return AlphaGaugeImpl::forward(x) + level(); }
};
TORCH_MODULE(BetaGauge);

}  // namespace modular::beta
