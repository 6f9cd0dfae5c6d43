// A range-based for statement with an initializer, assert, and overloads that differ in volatile.
#pragma once

#include <cassert>
#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaSumsImpl : public Module {
 public:
  int64_t sum(int64_t x) {
    assert(x > 0);
    int64_t result = 0;
    for (const std::vector<int64_t> values{value, x}; const int64_t one : values) result += one;
    return result;
  }
  int64_t kind() volatile { return 1; }
  int64_t kind() { return 2; }
  int64_t value = 3;
};
TORCH_MODULE(AlphaSums);

}  // namespace modular::alpha
