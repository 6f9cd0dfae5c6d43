// A walk that a return ends.
#pragma once

#include "modular/llama.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaConfig : llama::LlamaConfig {};

class BetaModelImpl : public llama::LlamaModelImpl {
 public:
  using LlamaModelImpl::LlamaModelImpl;
  Tensor forward(const Batch& batch) {
    Tensor hidden_states = embed(batch.input_ids);
    const RotaryTables rotary_embeddings = rotary_positions(batch, hidden_states.scalar_type());
    const AttentionMask mask = attention_mask(batch);
    for (auto& layer : *layers) {
      hidden_states = layer(hidden_states, rotary_embeddings, mask);
      if (config.num_hidden_layers == 1) return norm(hidden_states);
    }
    return norm(hidden_states);
  }
};
TORCH_MODULE(BetaModel);

using BetaForCausalLM MODEL_ENTRY("causal-lm") = llama::LlamaForCausalLM;
}  // namespace modular::beta
