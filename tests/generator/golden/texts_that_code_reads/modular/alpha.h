// The base of beta.h.
#pragma once

#include <stdexcept>
#include <string>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha, .title = "alpha");

/// The alpha.
struct AlphaBox {
  void fail() const { throw std::runtime_error("alpha failed"); }
};

}  // namespace modular::alpha
