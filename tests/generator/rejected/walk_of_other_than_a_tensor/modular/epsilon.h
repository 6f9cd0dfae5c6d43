// What the walk carries is declared together with another value.
#pragma once

#include "modular/llama.h"

namespace modular::epsilon {
MODULAR_FAMILY(Epsilon);

struct EpsilonConfig : llama::LlamaConfig {};

class EpsilonModelImpl : public llama::LlamaModelImpl {
 public:
  using LlamaModelImpl::LlamaModelImpl;
  Tensor forward(const Batch& batch) {
    auto [hidden_states, mask] = std::make_pair(embed(batch.input_ids), attention_mask(batch));
    const RotaryTables rotary_embeddings = rotary_positions(batch, hidden_states.scalar_type());
    for (auto& layer : *layers) hidden_states = layer(hidden_states, rotary_embeddings, mask);
    return norm(hidden_states);
  }
};
TORCH_MODULE(EpsilonModel);

using EpsilonForCausalLM MODEL_ENTRY("causal-lm") = llama::LlamaForCausalLM;
}  // namespace modular::epsilon
