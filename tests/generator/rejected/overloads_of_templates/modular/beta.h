// Flattened, a function would see an overload that C++ declares later, and a template would call itself.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaRanks : alpha::AlphaRanks {
  template <class Number>
  int64_t twice(Number number) const {
    return AlphaRanks::twice(number) + 1;
  }
};

}  // namespace modular::beta
