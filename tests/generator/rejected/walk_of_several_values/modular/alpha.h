// The walk over the layers carries more than one value: that is said, and nothing that follows from it.
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
    std::vector<Tensor> all;
    int64_t i = 0;
    for (auto& layer : *layers) {
      if (i++ % 2 == 0) all.push_back(hidden_states);
      hidden_states = layer(hidden_states, rotary_embeddings, mask);
    }
    return norm(hidden_states + all.back());
  }
};
TORCH_MODULE(AlphaModel);

using AlphaForCausalLM MODEL_ENTRY("causal-lm") = llama::LlamaForCausalLM;
}  // namespace modular::alpha
