// std::sort calls the operator that C++ finds: flattened, the base's would fit better.
#pragma once

#include <algorithm>
#include <vector>

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaOrder : alpha::AlphaOrder {
  bool operator()(double a, double b) const { return a > b; }
  int64_t least() const {
    std::vector<int64_t> all{2, 3, 1};
    std::sort(all.begin(), all.end(), *this);
    return all[0];
  }
};
struct BetaBoth : alpha::AlphaBoth {
  using AlphaBoth::operator();
  bool operator()(double a, double b) const { return a > b; }
};

}  // namespace modular::beta
