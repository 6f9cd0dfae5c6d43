// A walk that a break ends: the stages after that one would continue with their own elements.
#pragma once

#include "modular/llama.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : llama::LlamaConfig {};

class AlphaModelImpl : public llama::LlamaModelImpl {
 public:
  using LlamaModelImpl::LlamaModelImpl;
  Tensor forward(const Batch& batch) {
    Tensor hidden_states = embed(batch.input_ids);
    const RotaryTables rotary_embeddings = rotary_positions(batch, hidden_states.scalar_type());
    const AttentionMask mask = attention_mask(batch);
    for (auto& layer : *layers) {
      if (layers->index_of(layer) == 2) break;
      hidden_states = layer(hidden_states, rotary_embeddings, mask);
    }
    return norm(hidden_states);
  }
};
TORCH_MODULE(AlphaModel);

using AlphaForCausalLM MODEL_ENTRY("causal-lm") = llama::LlamaForCausalLM;
}  // namespace modular::alpha
