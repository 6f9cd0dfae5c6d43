// Methods that nothing calls: one has nearly the name of an inherited one.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaProjectionImpl : public alpha::AlphaProjectionImpl {
 public:
  Tensor scale(const Tensor& x) { return x * 3.0; }
  Tensor scaled_twice(const Tensor& x) { return scaled(scaled(x)); }
  Tensor scales(const Tensor& x) { return x; }
  Tensor forward(const Tensor& x) { return scales(proj(x)); }
};

}  // namespace modular::beta
