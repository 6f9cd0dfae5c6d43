// A field made a constant that inherited code changes.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaConfig : alpha::AlphaConfig {
  static constexpr bool gated = false;
};

using BetaProjection = alpha::AlphaProjection;

}  // namespace modular::beta
