// A function that replaces the base's, which code of the spec itself means.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

template <class T>
int64_t weigh(const T&) {
  return 77;
}

struct BetaBox : alpha::AlphaBox {
  int64_t g() const { return weigh(part); }
};

}  // namespace modular::beta
