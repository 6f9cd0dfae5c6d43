// The base of beta.h.
#pragma once

#include <array>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

enum AlphaMode { kFast = 2, kSlow = 3 };

struct AlphaBox {
  template <class T>
  struct Cell {
    T get() const { return T(kFast); }
  };
  enum { kBoth = kFast + kSlow };
  std::array<int64_t, kFast> values;
  uint64_t bits : kFast = 0;
  AlphaMode mode = AlphaMode::kFast;
  int64_t cell() const { return Cell<int64_t>().get() + (mode == kSlow ? int64_t{kFast} : int64_t{kBoth}); }
};

}  // namespace modular::alpha
