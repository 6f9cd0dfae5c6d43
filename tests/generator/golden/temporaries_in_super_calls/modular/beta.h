// The guard ends with the base's method; a string's end has no effect.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaCount : alpha::AlphaCount {
  int64_t total() { return AlphaCount::total() + ends; }
  int64_t length() { return AlphaCount::length() + ends; }
};

}  // namespace modular::beta
