// A method that is defined after its class calls its parameters otherwise.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaScaleImpl : public Module {
 public:
  AlphaScaleImpl() = default;
  Tensor forward(const Tensor& x, double factor);
};
TORCH_MODULE(AlphaScale);

inline Tensor AlphaScaleImpl::forward(const Tensor& x, double by) { return x * by; }

}  // namespace modular::alpha
