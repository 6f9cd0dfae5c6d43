// Qwen3 (Qwen Team, 2025), as in Hugging Face transformers: Qwen2 with norms on queries and keys instead of biases.
#pragma once

#include "modular/qwen2.h"

namespace modular::qwen3 {
MODULAR_FAMILY(Qwen3);

struct Qwen3Config : qwen2::Qwen2Config {
  std::optional<int64_t> head_dim = 128;
  bool attention_bias = false;
};

struct Qwen3AttentionImpl : llama::LlamaAttentionImpl {
  explicit Qwen3AttentionImpl(const Qwen3Config& config)
      : LlamaAttentionImpl(config),
        q_norm(llama::LlamaRMSNorm(head_dim, config.rms_norm_eps)),
        k_norm(llama::LlamaRMSNorm(head_dim, config.rms_norm_eps)) {}

  Tensor attend(const Tensor& query, const Tensor& key, const Tensor& value, const RotaryTables& rotary_embeddings,
                const AttentionMask& mask) {
    const auto& [cos, sin] = rotary_embeddings;
    return attention(rotary(q_norm(query), cos, sin), rotary(k_norm(key), cos, sin), value, mask, scaling,
                     attention_dropout);
  }

  llama::LlamaRMSNorm q_norm;
  llama::LlamaRMSNorm k_norm;
};

using Qwen3ForCausalLM MODEL_ENTRY("causal-lm") = qwen2::Its<llama::LlamaForCausalLM>;
using Qwen3ForSequenceClassification MODEL_ENTRY("sequence-classification") = qwen2::Qwen2ForSequenceClassification;
using Qwen3ForTokenClassification MODEL_ENTRY("token-classification") = qwen2::Qwen2ForTokenClassification;
using Qwen3ForSentenceEmbedding MODEL_ENTRY("sentence-embedding", "Qwen3Model") = qwen2::Qwen2ForSentenceEmbedding;

}  // namespace modular::qwen3
