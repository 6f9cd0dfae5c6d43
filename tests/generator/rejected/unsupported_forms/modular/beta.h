// A class template and a nested namespace.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

template <class T>
struct BetaBox {
  T value;
};

namespace detail {
inline int64_t one() { return 1; }
}  // namespace detail

}  // namespace modular::beta
