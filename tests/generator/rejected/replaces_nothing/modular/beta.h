// Members that say that they replace inherited ones, and replace none.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaConfig : alpha::AlphaConfig {
  REPLACES double factor = 3.0;
};

class BetaProjectionImpl : public alpha::AlphaProjectionImpl {
 public:
  REPLACES Tensor scale(const Tensor& x) { return x * 3.0; }
};

class BetaNewImpl : public Module {
 public:
  REPLACES Tensor forward(const Tensor& x) { return x; }
};

}  // namespace modular::beta
