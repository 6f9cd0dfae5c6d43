// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaBlockImpl : public Module {
 public:
  Tensor forward(const Tensor& x) { return x; }
};

class AlphaModelImpl : public Module {
 public:
  AlphaModelImpl() : block(AlphaBlock()) {}
  Tensor forward(const Tensor& x) { return block(x); }
  AlphaBlock block;
};

}  // namespace modular::alpha
