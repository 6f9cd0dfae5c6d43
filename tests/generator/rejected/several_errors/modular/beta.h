// Each of these errors is reported in one run.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct Settings : Config {};

template <class T>
struct BetaBox {
  T value;
};

class BetaProjectionImpl : public alpha::AlphaProjectionImpl {
 public:
  Tensor forward(const Tensor& x) { return proj(x) * 2.0; }
};
TORCH_MODULE(BetaProjection);

}  // namespace modular::beta
