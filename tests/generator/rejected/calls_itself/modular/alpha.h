// A method that calls itself, twice.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaRecursionImpl : public Module {
 public:
  AlphaRecursionImpl() = default;
  Tensor power(const Tensor& x, int64_t n) { return n == 0 ? x : power(x, n - 1) * power(x, n - 1); }
  Tensor forward(const Tensor& x) { return power(x, 3); }
};
TORCH_MODULE(AlphaRecursion);

}  // namespace modular::alpha
