// The base of beta.h.
#pragma once
#include <memory>
#include "modular/modular.h"
namespace modular::alpha {
MODULAR_FAMILY(Alpha);
class AlphaActsImpl : public Module {
 public:
  AlphaActsImpl() = default;
  Tensor forward(const Tensor& x) { return x; }
};
TORCH_MODULE(AlphaActs);
}  // namespace modular::alpha
