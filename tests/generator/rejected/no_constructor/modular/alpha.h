// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

/// Which keys a query sees.
struct AlphaWindow {
  explicit AlphaWindow(int64_t size) : size(size) {}

  int64_t left() const { return size; }

  int64_t size;
};

}  // namespace modular::alpha
