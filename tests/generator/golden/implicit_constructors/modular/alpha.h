// The first of three levels.
#pragma once
#include "modular/modular.h"
namespace modular::alpha {
MODULAR_FAMILY(Alpha);
struct AlphaConfig : Config {
  int64_t size = 8;
};
class AlphaPadImpl : public Module {
 public:
  explicit AlphaPadImpl(int64_t size = 4) : size(size) { half = size / 2; }
  Tensor forward(const Tensor& x) { return x + size * half; }
  int64_t size;
  int64_t half;
};
TORCH_MODULE(AlphaPad);
}  // namespace modular::alpha
