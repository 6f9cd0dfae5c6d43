// Inherited code makes this class by a constructor that C++ does not inherit.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaCount : alpha::AlphaCount {
  int64_t m = 1;
};

using BetaBox = alpha::AlphaBox;

}  // namespace modular::beta
