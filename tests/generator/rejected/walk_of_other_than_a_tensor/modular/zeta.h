// What makes the carried value makes another one too, which later stages would not have.
#pragma once

#include "modular/llama.h"

namespace modular::zeta {
MODULAR_FAMILY(Zeta);

struct ZetaConfig : llama::LlamaConfig {};

class ZetaModelImpl : public llama::LlamaModelImpl {
 public:
  using LlamaModelImpl::LlamaModelImpl;
  Tensor forward(const Batch& batch) {
    Tensor hidden_states;
    AttentionMask mask;
    std::tie(hidden_states, mask) = std::make_tuple(embed(batch.input_ids), attention_mask(batch));
    const RotaryTables rotary_embeddings = rotary_positions(batch, hidden_states.scalar_type());
    for (auto& layer : *layers) hidden_states = layer(hidden_states, rotary_embeddings, mask);
    return norm(hidden_states);
  }
};
TORCH_MODULE(ZetaModel);

using ZetaForCausalLM MODEL_ENTRY("causal-lm") = llama::LlamaForCausalLM;
}  // namespace modular::zeta
