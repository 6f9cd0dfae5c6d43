// Fields of the base's config that are constants here: config.json does not give them, and inherited code has their
// values.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaConfig : alpha::AlphaConfig {
  static constexpr bool bias = false;
  static constexpr bool gated = true;
  static constexpr double factor = 2.0;  // of another type: a constant of the class
};

class BetaProjectionImpl : public alpha::AlphaProjectionImpl {
 public:
  double offset() const { return config.bias ? 1.0 : 0.0; }
};

inline double beta_offset(const BetaConfig& config) { return config.gated && !BetaConfig::bias ? config.factor : 0.0; }

}  // namespace modular::beta
