// The root: a method that another one calls with a whole number.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {

MODULAR_FAMILY(Alpha);

class AlphaGateImpl : public Module {
 public:
  double half(double value) { return value / 2; }
  Tensor forward(const Tensor& x) { return x * half(heads); }

  int64_t heads = 3;
};

}  // namespace modular::alpha
