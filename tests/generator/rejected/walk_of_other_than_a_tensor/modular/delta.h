// A walk that carries a tensor inside of something else, which no stage can receive.
#pragma once

#include "modular/llama.h"

namespace modular::delta {
MODULAR_FAMILY(Delta);

struct DeltaConfig : llama::LlamaConfig {};

class DeltaModelImpl : public llama::LlamaModelImpl {
 public:
  using LlamaModelImpl::LlamaModelImpl;
  Tensor forward(const Batch& batch) {
    std::optional<Tensor> hidden_states = embed(batch.input_ids);
    const RotaryTables rotary_embeddings = rotary_positions(batch, hidden_states->scalar_type());
    const AttentionMask mask = attention_mask(batch);
    for (auto& layer : *layers) hidden_states = layer(*hidden_states, rotary_embeddings, mask);
    return norm(*hidden_states);
  }
};
TORCH_MODULE(DeltaModel);

using DeltaForCausalLM MODEL_ENTRY("causal-lm") = llama::LlamaForCausalLM;
}  // namespace modular::delta
