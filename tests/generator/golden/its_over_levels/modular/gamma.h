// Declares the gain, and has beta's block of it without saying so.
#pragma once

#include "modular/beta.h"

namespace modular::gamma {
MODULAR_FAMILY(Gamma);

class GammaGainImpl : public beta::Its<alpha::AlphaGainImpl> {
 public:
  using AlphaGainImpl::AlphaGainImpl;

  Tensor forward(const Tensor& x) { return x * (weight + 1.0); }
};
TORCH_MODULE(GammaGain);

}  // namespace modular::gamma
