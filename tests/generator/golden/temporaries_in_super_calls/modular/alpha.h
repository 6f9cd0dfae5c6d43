// The base of beta.h.
#pragma once

#include <string>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

/// Counts how often one of its objects has ended.
struct AlphaGuard {
  explicit AlphaGuard(int64_t* count) : ends(count) {}
  ~AlphaGuard() { ++*ends; }
  int64_t value() const { return 1; }
  int64_t* ends;
};

struct AlphaCount {
  int64_t total() { return AlphaGuard(&ends).value(); }
  int64_t length() { return std::string("text").size(); }

  int64_t ends = 0;
};

}  // namespace modular::alpha
