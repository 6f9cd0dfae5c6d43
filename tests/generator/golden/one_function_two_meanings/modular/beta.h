// Has another constant, which what it inherits reads.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {

MODULAR_FAMILY(Beta);

inline constexpr double kLimit = 2.0;

class BetaGateImpl : public alpha::AlphaGateImpl {
 public:
  Tensor forward(const Tensor& x) { return AlphaGateImpl::forward(x) + kLimit; }
};

}  // namespace modular::beta
