// The inherited constructor still reads the removed field, and so does a method of its own.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaConfig : alpha::AlphaConfig {
  bool has_bias() { return bias; }

 private:
  using AlphaConfig::bias;
};

using BetaBlock = alpha::AlphaBlock;

}  // namespace modular::beta
