// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaAttentionImpl : public Module {
 public:
  Tensor forward(const Tensor& x) { return x; }
};

class AlphaBlockImpl : public Module {
 public:
  AlphaBlockImpl() : attention(AlphaAttention()) {}
  Tensor forward(const Tensor& x) { return attention(x); }
  AlphaAttention attention;
};

}  // namespace modular::alpha
