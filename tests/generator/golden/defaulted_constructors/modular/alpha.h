// The base of beta.h.
#pragma once
#include "modular/modular.h"
namespace modular::alpha {
MODULAR_FAMILY(Alpha);
class AlphaPadImpl : public Module {
 public:
  AlphaPadImpl() : size(7) { half = size / 2; }
  Tensor forward(const Tensor& x) { return x + size * half; }
  int64_t size;
  int64_t half;
};
TORCH_MODULE(AlphaPad);
}  // namespace modular::alpha
