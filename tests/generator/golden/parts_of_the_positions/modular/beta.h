// A class that layers call with a rank's positions, and the model with all: its calls would differ, so that the layers
// have all positions, too.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaModelImpl : alpha::AlphaModelImpl {
  explicit BetaModelImpl(const alpha::AlphaConfig& config)
      : AlphaModelImpl(config), last(alpha::AlphaAttention(config)) {}

  Tensor forward(const Batch& batch) {
    Tensor hidden_states = embed(batch.input_ids);
    const AttentionMask mask = causal_mask(batch, /*window=*/0);
    for (auto& layer : *layers) hidden_states = layer(hidden_states, mask, batch.attention_mask);
    return last(norm(hidden_states), mask);
  }

  PP_LAST alpha::AlphaAttention last;
};

using BetaForCausalLM MODEL_ENTRY("causal-lm") = alpha::AlphaForCausalLM;

}  // namespace modular::beta
