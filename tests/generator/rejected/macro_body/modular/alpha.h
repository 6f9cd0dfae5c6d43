// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

inline int64_t alpha_size() { return 1; }

#define SIZE alpha_size()
class AlphaBlockImpl : public Module {
 public:
  AlphaBlockImpl() : size(SIZE) {}

  int64_t size;
};
#undef SIZE
TORCH_MODULE(AlphaBlock);

}  // namespace modular::alpha
