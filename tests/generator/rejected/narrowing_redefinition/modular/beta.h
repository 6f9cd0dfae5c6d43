// A function of the same name that takes whole numbers alone: inherited code would lose the fraction that it gives.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {

MODULAR_FAMILY(Beta);

inline int64_t scaled(int64_t value) { return value * 3; }

class BetaGateImpl : public alpha::AlphaGateImpl {
 public:
  Tensor forward(const Tensor& x) { return AlphaGateImpl::forward(x) + scaled(1); }
};

}  // namespace modular::beta
