// A struct is converted to its base, which the flattened struct does not have.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaPart {
  Tensor first;
};
struct AlphaWhole : AlphaPart {
  Tensor last;
};

class AlphaBlockImpl : public Module {
 public:
  Tensor forward(const Tensor& x) {
    AlphaWhole whole;
    whole.first = x;
    AlphaPart part = whole;
    return part.first;
  }
};

}  // namespace modular::alpha
