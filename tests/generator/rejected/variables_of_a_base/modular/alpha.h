// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaNumberImpl : public Module {
 public:
  int64_t next() {
    static int64_t count = 0;
    return ++count;
  }
};
TORCH_MODULE(AlphaNumber);

}  // namespace modular::alpha
