// The entry is inherited with a name of its own, the parallel annotations with the members that they mark.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaLayerImpl : public alpha::AlphaLayerImpl {
 public:
  using AlphaLayerImpl::AlphaLayerImpl;

  Tensor forward(const Tensor& x) { return AlphaLayerImpl::forward(x) * 0.5; }
};
TORCH_MODULE(BetaLayer);

using BetaForCausalLM MODEL_ENTRY("causal-lm") = alpha::AlphaForCausalLM;

}  // namespace modular::beta
