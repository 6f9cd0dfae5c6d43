// The base of beta.h: methods that assign the whole object.
#pragma once

#include <utility>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaStats {
  int64_t steps = 0;
  double loss = 0.0;
  double mean_and_reset() {
    const double mean = loss / static_cast<double>(steps);
    *this = AlphaStats();
    return mean;
  }
};
struct AlphaUndo {
  int64_t value = 0;
  void restore(AlphaUndo& other) { std::swap(*this, other); }
};
struct AlphaBest {
  int64_t value = 0;
  int64_t twice() const {
    AlphaBest other;
    other = *this;
    return other.value + value;
  }
};

}  // namespace modular::alpha
