// Methods and constructors that are defined after their class go into it.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaGateImpl : public alpha::AlphaGateImpl {
 public:
  explicit BetaGateImpl(const alpha::AlphaConfig& config);

  Tensor both(const Tensor& x);
  double twice() const { return scaled(2.0); }
};
TORCH_MODULE(BetaGate);

inline BetaGateImpl::BetaGateImpl(const alpha::AlphaConfig& config) : AlphaGateImpl(config, 2.0) {}

inline Tensor BetaGateImpl::both(const Tensor& x) { return AlphaGateImpl::forward(x) + AlphaGateImpl::forward(x, true); }

}  // namespace modular::beta
