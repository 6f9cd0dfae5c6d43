// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaCountImpl : public Module {
 public:
  explicit AlphaCountImpl(int64_t start) { set(start); }

  void set(int64_t value) { count = value; }
  int64_t next() { return count + 1; }
  Tensor forward(const Tensor& x) { return x * count; }

  int64_t count = 0;
};
TORCH_MODULE(AlphaCount);

}  // namespace modular::alpha
