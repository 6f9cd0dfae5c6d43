// Adds an overload beside the inherited method, which fits the inherited call better: 1 rather than 1.5.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {

MODULAR_FAMILY(Beta);

class BetaGateImpl : public alpha::AlphaGateImpl {
 public:
  using AlphaGateImpl::half;
  double half(int64_t value) { return static_cast<double>(value / 2); }
};

}  // namespace modular::beta
