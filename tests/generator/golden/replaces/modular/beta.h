// Members that say that they replace inherited ones: methods in their class and behind it, a field, a config's finish().
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaConfig : alpha::AlphaConfig {
  double factor = 3.0;

  REPLACES void finish() {
    AlphaConfig::finish();
    if (factor <= 0.0) throw ConfigError("factor must be above 0");
  }
};

class BetaProjectionImpl : public alpha::AlphaProjectionImpl {
 public:
  /// By the config's factor.
  REPLACES
  Tensor scaled(const Tensor& x) { return x * config.factor; }
  REPLACES Tensor forward(const Tensor& x);

  REPLACES BetaConfig config;
};

Tensor BetaProjectionImpl::forward(const Tensor& x) {
  for (int64_t times = 0; times < 2; ++times) AlphaProjectionImpl::forward(x);
  return AlphaProjectionImpl::forward(x) + 1.0;
}

class BetaDoubleImpl : public BetaProjectionImpl {
 public:
  REPLACES Tensor forward(const Tensor& x) {
    if (x.dim() > 2) return BetaProjectionImpl::forward(x.flatten(0, 1));
    return BetaProjectionImpl::forward(x);
  }
};

}  // namespace modular::beta
