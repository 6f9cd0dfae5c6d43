// Types of a class that are declared again, while inherited members name them.
#pragma once

#include <set>

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaState : alpha::AlphaState {
  int64_t m = 2;
};

struct BetaBox : alpha::AlphaBox {
  struct State {
    int64_t n = 7;
  };
  using Number = double;
  using Shared = BetaState;  // what the inherited one means, too
  template <class T>
  using List = std::set<T>;
  struct Unused {
    int64_t n = 1;
  };
  State more;
  int64_t Extra = 1;
};

}  // namespace modular::beta
