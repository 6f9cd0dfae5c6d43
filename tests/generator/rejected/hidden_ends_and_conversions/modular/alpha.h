// The base of beta.h.
#pragma once

#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaList {
  std::vector<int64_t> values{1, 2, 3};
  auto begin() { return values.begin(); }
  auto end() { return values.end(); }
  auto begin() const { return values.begin(); }
  auto end() const { return values.end(); }
};

struct AlphaNumber {
  int64_t number = 3;
  operator int64_t() { return number; }
  operator int64_t() const { return number; }
};
}  // namespace modular::alpha
