// Arguments that the lambda would read when it runs.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

inline double beta_factor = 2.0;

struct BetaSettings {
  double factor = 3.0;
};

struct BetaScale : alpha::AlphaScale {
  explicit BetaScale(double factor) : AlphaScale(factor) {}
  explicit BetaScale(const BetaSettings* settings) : AlphaScale(settings->factor) {}
  BetaScale() : AlphaScale(beta_factor) {}
};

}  // namespace modular::beta
