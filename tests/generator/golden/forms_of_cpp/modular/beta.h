// A variable of the constructor that is called as one of the base is.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaLayerImpl : alpha::AlphaLayerImpl {
  BetaLayerImpl(const alpha::AlphaConfig& config, int64_t layer) : AlphaLayerImpl(config, layer) {
    const int64_t half = config.hidden_size / 2;
    width = half;
  }

  int64_t width = 0;
};

using BetaForCausalLM MODEL_ENTRY("causal-lm") = alpha::AlphaForCausalLM;

}  // namespace modular::beta
