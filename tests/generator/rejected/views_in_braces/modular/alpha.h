// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaInArray {
  int64_t value() const { return 1; }
};
struct AlphaInRows {
  int64_t value() const { return 1; }
};
struct AlphaBound {
  int64_t value() const { return 1; }
};
struct AlphaInMember {
  int64_t value() const { return 1; }
};
struct AlphaInParentheses {
  int64_t value() const { return 1; }
};
struct AlphaInArgument {
  int64_t value() const { return 1; }
};
struct AlphaInVector {
  int64_t value() const { return 1; }
};
struct AlphaWrapped {
  int64_t value() const { return 1; }
};
struct AlphaWalked {
  const int64_t* begin() const { return &first; }
  const int64_t* end() const { return &first + 1; }
  int64_t first = 1;
};
struct AlphaBindings {
  int64_t first = 1;
};

}  // namespace modular::alpha
