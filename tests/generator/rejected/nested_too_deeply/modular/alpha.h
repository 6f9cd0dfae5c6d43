// A sum of some thousand terms.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

#define FOUR(sum) sum + sum + sum + sum
#define SIXTEEN(sum) FOUR(FOUR(sum))
class AlphaSumImpl : public Module {
 public:
  AlphaSumImpl() = default;
  Tensor forward(const Tensor& x) {
    const Tensor some = SIXTEEN(SIXTEEN(x));
    return SIXTEEN(SIXTEEN(SIXTEEN(some)));
  }
};
TORCH_MODULE(AlphaSum);

}  // namespace modular::alpha
