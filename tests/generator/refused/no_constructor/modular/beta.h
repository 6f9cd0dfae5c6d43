// The base's constructors are not inherited.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaProjectionImpl : public alpha::AlphaProjectionImpl {
 public:
  Tensor forward(const Tensor& x) { return proj(x) * 2.0; }
};
TORCH_MODULE(BetaProjection);

}  // namespace modular::beta
