// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaPart {
  int64_t n = 1;
};

template <class P>
P alpha_made() {
  return P();
}
template <class P>
int64_t alpha_read(const P& part) {
  return part.n;
}

}  // namespace modular::alpha
