// Calls that C++ makes without a name: begin() and end() of a loop, and conversion functions. In C++, this class's hide
// all of the base's, of which a flattened class keeps those with other qualifiers.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaList : alpha::AlphaList {
  auto begin() const { return values.rbegin(); }
  auto end() const { return values.rend(); }
  int64_t joined() {
    int64_t all = 0;
    for (const int64_t one : *this) all = all * 10 + one;
    return all;
  }
};

struct BetaNumber : alpha::AlphaNumber {
  operator int64_t() const { return number * 10; }
  int64_t shown() {
    const int64_t shown = *this;
    return shown;
  }
};
}  // namespace modular::beta
