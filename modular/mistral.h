// Mistral (Jiang et al., 2023), as in Hugging Face transformers: Llama with a sliding window and without biases.
#pragma once

#include "modular/llama.h"

namespace modular::mistral {
MODULAR_FAMILY(Mistral);

struct MistralConfig : llama::LlamaConfig {
  int64_t intermediate_size = 14336;
  std::optional<int64_t> num_key_value_heads = 8;
  int64_t max_position_embeddings = 4096 * 32;
  static constexpr bool attention_bias = false;
  static constexpr bool mlp_bias = false;
  std::optional<int64_t> sliding_window = 4096;  // keys per query; all previous ones when not given
};

struct MistralModelImpl : llama::LlamaModelImpl {
  AttentionMask attention_mask(const Batch& batch) { return causal_mask(batch, config.sliding_window.value_or(0)); }

  MistralConfig config;
};

using MistralForCausalLM MODEL_ENTRY("causal-lm") = llama::LlamaForCausalLM;
using MistralForSequenceClassification MODEL_ENTRY("sequence-classification") = llama::LlamaForSequenceClassification;
using MistralForTokenClassification MODEL_ENTRY("token-classification") = llama::LlamaForTokenClassification;

/// The base model as a sentence encoder (Reimers & Gurevych, Sentence-BERT).
struct MODEL_ENTRY("sentence-embedding", "MistralModel") FSDP_UNIT MistralForSentenceEmbeddingImpl : MistralModelImpl {
  Outputs forward(const Batch& batch) {
    Tensor hidden_states = MistralModelImpl::forward(batch);
    return sentence_outputs(sentence_embeddings(hidden_states, batch), batch);
  }
};

}  // namespace modular::mistral
