// OLMo 2 (Team OLMo, 2025), as in Hugging Face transformers: Llama with norms after attention and feed-forward network
// instead of before them, and with joint norms over all heads of queries and keys.
#pragma once

#include "modular/llama.h"

namespace modular::olmo2 {
MODULAR_FAMILY(Olmo2, .title = "OLMo 2");

struct Olmo2Config : llama::LlamaConfig {
  int64_t vocab_size = 50304;
  double rms_norm_eps = 1e-5;
  std::optional<int64_t> pad_token_id = 1;
  static constexpr bool mlp_bias = false;
};

/// Rounds once, after multiplying by its scale.
struct Olmo2RMSNormImpl : llama::LlamaRMSNormImpl {
  Tensor forward(const Tensor& hidden_states) { return rms_norm(hidden_states, weight.to(at::kFloat), eps); }
};

/// The same, jointly over all heads.
struct Olmo2HeadsRMSNormImpl : llama::LlamaRMSNormImpl {
  Tensor forward(const Tensor& hidden_states) { return rms_norm(hidden_states, weight.to(at::kFloat), eps); }
  TP_SHARD(0) Tensor weight;  // [heads * head_dim]
};

struct Olmo2AttentionImpl : llama::LlamaAttentionImpl {
  explicit Olmo2AttentionImpl(const Olmo2Config& config)
      : LlamaAttentionImpl(config),
        q_norm(Olmo2HeadsRMSNorm(num_heads * head_dim, config.rms_norm_eps)),
        k_norm(Olmo2HeadsRMSNorm(num_key_value_heads * head_dim, config.rms_norm_eps)) {}

  Tensor forward(const Tensor& hidden_states, const RotaryTables& rotary_embeddings, const AttentionMask& mask) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1);
    Tensor query = q_norm(q_proj(hidden_states)).view({batch, seq, num_heads, head_dim}).transpose(1, 2);
    Tensor key = k_norm(k_proj(hidden_states)).view({batch, seq, num_key_value_heads, head_dim}).transpose(1, 2);
    Tensor value = v_proj(hidden_states).view({batch, seq, num_key_value_heads, head_dim}).transpose(1, 2);
    return o_proj(attend(query, key, value, rotary_embeddings, mask));
  }

  Olmo2HeadsRMSNorm q_norm;
  Olmo2HeadsRMSNorm k_norm;
};

class Olmo2DecoderLayerImpl : public llama::LlamaDecoderLayerImpl {
 public:
  Olmo2DecoderLayerImpl(const Olmo2Config& config, int64_t layer)
      : LlamaDecoderLayerImpl(config, layer),
        post_feedforward_layernorm(Olmo2RMSNorm(config.hidden_size, config.rms_norm_eps)) {}

  Tensor forward(const Tensor& hidden_states, const RotaryTables& rotary_embeddings, const AttentionMask& mask) {
    const Tensor mixed = self_attn(hidden_states, rotary_embeddings, mask);
    const Tensor residual = hidden_states + post_attention_layernorm(mixed);
    return residual + post_feedforward_layernorm(mlp(residual));
  }

  Olmo2RMSNorm post_feedforward_layernorm;

 private:
  using LlamaDecoderLayerImpl::input_layernorm;
};

struct Olmo2ModelImpl : llama::LlamaModelImpl {
  /// In float32, so that RoPE is computed in float32.
  RotaryTables rotary_positions(const Batch& batch, at::ScalarType /*type*/) {
    return LlamaModelImpl::rotary_positions(batch, at::kFloat);
  }
};

using Olmo2ForCausalLM MODEL_ENTRY("causal-lm") = llama::LlamaForCausalLM;
using Olmo2ForSequenceClassification MODEL_ENTRY("sequence-classification") = llama::LlamaForSequenceClassification;

}  // namespace modular::olmo2
