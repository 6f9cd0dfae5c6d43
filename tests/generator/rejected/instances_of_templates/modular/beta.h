// Instances of a function template that differ for the flattened class. One that does the same is none.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaMeasured : alpha::AlphaMeasured {
  int64_t size() const { return 2; }
};

struct BetaExtra : alpha::AlphaExtra {
  int64_t extra = 2;
};

struct BetaBytes : alpha::AlphaBytes {
  int64_t height = 2;
};

struct BetaSame : alpha::AlphaSame {
  int64_t height = 2;
};

}  // namespace modular::beta
