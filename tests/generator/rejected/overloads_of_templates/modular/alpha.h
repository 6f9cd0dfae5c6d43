// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

inline int64_t rank(double) { return 1; }
inline int64_t first(int64_t number) { return rank(number); }
template <class Number>
int64_t ranked(Number number) {
  return rank(number);
}
inline int64_t rank(int64_t) { return 2; }

struct AlphaRanks {
  template <class Number>
  int64_t twice(Number number) const {
    return number * 2;
  }
  int64_t first_rank() const { return first(1); }
};

}  // namespace modular::alpha
