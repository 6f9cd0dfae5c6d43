// Using-declarations in functions, of an operator and of an ordinary function.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaBox : alpha::AlphaBox {
  int64_t more() const {
    using alpha::operator""_boxes;
    using alpha::alpha_half;
    return number() + alpha_half(4_boxes);
  }
};

}  // namespace modular::beta
