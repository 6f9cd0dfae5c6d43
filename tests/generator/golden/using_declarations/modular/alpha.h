// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaSizeImpl : public Module {
 public:
  AlphaSizeImpl() : size(1) {}
  explicit AlphaSizeImpl(int64_t size) : size(size) {}
  explicit AlphaSizeImpl(int64_t size, int64_t times) : size(size * times) {}

  int64_t grown() { return size + 1; }
  int64_t size;

 protected:
  int64_t doubled() { return size * 2; }
};
TORCH_MODULE(AlphaSize);

}  // namespace modular::alpha
