// A level without a constructor of its own.
#pragma once
#include "modular/alpha.h"
namespace modular::beta {
MODULAR_FAMILY(Beta);
class BetaPadImpl : public alpha::AlphaPadImpl {
 public:
  Tensor forward(const Tensor& x) { return x - size; }
};
TORCH_MODULE(BetaPad);
}  // namespace modular::beta
