// The type of a member is not declared: Clang then takes the class for no module, and repeats the name at each use.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaBlockImpl : public Module {
 public:
  explicit AlphaBlockImpl(int64_t size)
      : up(linear(size, size, true)), down(linear(size, size, true)), rate(Rate(size)) {}

  Tensor forward(const Tensor& x) { return down(missing(up(x))) + missing(x); }

  nn::Linear up;
  nn::Linear down;
  Rate rate;
};

}  // namespace modular::alpha
