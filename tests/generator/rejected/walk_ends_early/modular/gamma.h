// A return before the walk.
#pragma once

#include "modular/llama.h"

namespace modular::gamma {
MODULAR_FAMILY(Gamma);

struct GammaConfig : llama::LlamaConfig {};

class GammaModelImpl : public llama::LlamaModelImpl {
 public:
  using LlamaModelImpl::LlamaModelImpl;
  Tensor forward(const Batch& batch) {
    Tensor hidden_states = embed(batch.input_ids);
    const RotaryTables rotary_embeddings = rotary_positions(batch, hidden_states.scalar_type());
    const AttentionMask mask = attention_mask(batch);
    if (config.num_hidden_layers == 0) return hidden_states;
    for (auto& layer : *layers) hidden_states = layer(hidden_states, rotary_embeddings, mask);
    return norm(hidden_states);
  }
};
TORCH_MODULE(GammaModel);

using GammaForCausalLM MODEL_ENTRY("causal-lm") = llama::LlamaForCausalLM;
}  // namespace modular::gamma
