// The base of beta.h.
#pragma once

#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaState {
  int64_t n = 1;
};

struct AlphaBox {
  struct State {
    int64_t n = 1;
  };
  using Number = int64_t;
  using Shared = AlphaState;
  template <class T>
  using List = std::vector<T>;
  struct Unused {};
  State state;
  std::vector<Number> numbers;
  Shared shared;
  List<double> list;
  struct Extra {};
};

}  // namespace modular::alpha
