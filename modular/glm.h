// GLM-4 (Team GLM, 2024), as in Hugging Face transformers: Llama with biases on query, key and value, one projection
// for gate and up, and interleaved RoPE on a part of each head.
#pragma once

#include "modular/phi3.h"

namespace modular::glm {
MODULAR_FAMILY(Glm);

struct GlmConfig : llama::LlamaConfig {
  int64_t vocab_size = 151552;
  int64_t intermediate_size = 13696;
  int64_t num_hidden_layers = 40;
  std::optional<int64_t> num_key_value_heads = 2;
  std::optional<int64_t> head_dim = 128;
  int64_t max_position_embeddings = 131072;
  double rms_norm_eps = 0.00000015625;
  std::optional<int64_t> pad_token_id = 151329;
  RopeParameters rope_parameters = partial_rotary(0.5);
  bool attention_bias = true;
  static constexpr bool mlp_bias = false;
};

using GlmMLP = phi3::Phi3MLP;

struct GlmAttentionImpl : llama::LlamaAttentionImpl {
  explicit GlmAttentionImpl(const GlmConfig& config) : LlamaAttentionImpl(config) {
    o_proj = remake(o_proj, linear(num_heads * head_dim, config.hidden_size, /*bias=*/false));
  }

  Tensor attend(const Tensor& query, const Tensor& key, const Tensor& value, const RotaryTables& rotary_embeddings,
                const AttentionMask& mask) {
    const auto& [cos, sin] = rotary_embeddings;
    return attention(rotary_adjacent(query, cos, sin), rotary_adjacent(key, cos, sin), value, mask, scaling,
                     attention_dropout);
  }
};

using GlmForCausalLM MODEL_ENTRY("causal-lm") = llama::LlamaForCausalLM;
using GlmForSequenceClassification MODEL_ENTRY("sequence-classification") = llama::LlamaForSequenceClassification;
using GlmForTokenClassification MODEL_ENTRY("token-classification") = llama::LlamaForTokenClassification;

}  // namespace modular::glm
