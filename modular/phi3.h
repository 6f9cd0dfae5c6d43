// Phi-3 (Abdin et al., 2024), as in Hugging Face transformers: Mistral with one projection for query, key and value and
// one for gate and up.
#pragma once

#include "modular/mistral.h"

namespace modular::phi3 {
MODULAR_FAMILY(Phi3);

struct Phi3Config : mistral::MistralConfig {
  int64_t vocab_size = 32064;
  int64_t hidden_size = 3072;
  int64_t intermediate_size = 8192;
  std::optional<int64_t> num_key_value_heads;
  double resid_pdrop = 0.0;
  double embd_pdrop = 0.0;
  int64_t max_position_embeddings = 4096;
  int64_t original_max_position_embeddings = 4096;  // context length of longrope's short factors
  double rms_norm_eps = 1e-5;
  std::optional<int64_t> pad_token_id = 32000;
  std::optional<int64_t> sliding_window;

  void finish() {
    if (rope_parameters.rope_type == "yarn") rope_parameters.rope_type = "longrope";  // its name in the first releases
    if (rope_parameters.rope_type == "longrope")
      rope_parameters.original_max_position_embeddings = original_max_position_embeddings;
    MistralConfig::finish();
  }
};

struct Phi3MLPImpl : llama::LlamaMLPImpl {
  explicit Phi3MLPImpl(const Phi3Config& config)
      : LlamaMLPImpl(config),
        intermediate_size(config.intermediate_size),
        gate_up_proj(linear(config.hidden_size, 2 * intermediate_size, /*bias=*/false)) {}

  Tensor forward(const Tensor& x) {
    const auto gate_up = gate_up_proj(x).chunk(2, -1);
    return down_proj(gated_activation(hidden_act, gate_up[0], gate_up[1]));
  }

  int64_t intermediate_size;
  TP_COLWISE_PARTS(intermediate_size, intermediate_size) nn::Linear gate_up_proj;

 private:
  using LlamaMLPImpl::gate_proj, LlamaMLPImpl::up_proj;
};

struct Phi3AttentionImpl : llama::LlamaAttentionImpl {
  explicit Phi3AttentionImpl(const Phi3Config& config)
      : LlamaAttentionImpl(config),
        qkv_proj(linear(config.hidden_size, (num_heads + 2 * num_key_value_heads) * head_dim, /*bias=*/false)) {}

  Tensor forward(const Tensor& hidden_states, const RotaryTables& rotary_embeddings, const AttentionMask& mask) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1);
    const auto parts =
        qkv_proj(hidden_states)
            .split_with_sizes({num_heads * head_dim, num_key_value_heads * head_dim, num_key_value_heads * head_dim},
                              -1);
    const Tensor query = parts[0].view({batch, seq, num_heads, head_dim}).transpose(1, 2);
    const Tensor key = parts[1].view({batch, seq, num_key_value_heads, head_dim}).transpose(1, 2);
    const Tensor value = parts[2].view({batch, seq, num_key_value_heads, head_dim}).transpose(1, 2);
    return o_proj(attend(query, key, value, rotary_embeddings, mask));
  }

  TP_COLWISE_PARTS(num_heads * head_dim, num_key_value_heads * head_dim, num_key_value_heads * head_dim)
  nn::Linear qkv_proj;

 private:
  using LlamaAttentionImpl::k_proj, LlamaAttentionImpl::q_proj, LlamaAttentionImpl::v_proj;
};

struct Phi3DecoderLayerImpl : llama::LlamaDecoderLayerImpl {
  Phi3DecoderLayerImpl(const Phi3Config& config, int64_t layer)
      : LlamaDecoderLayerImpl(config, layer),
        resid_attn_dropout(nn::Dropout(config.resid_pdrop)),
        resid_mlp_dropout(nn::Dropout(config.resid_pdrop)) {}

  Tensor forward(const Tensor& hidden_states, const RotaryTables& rotary_embeddings, const AttentionMask& mask) {
    const Tensor mixed = self_attn(input_layernorm(hidden_states), rotary_embeddings, mask);
    const Tensor residual = hidden_states + resid_attn_dropout(mixed);
    return residual + resid_mlp_dropout(mlp(post_attention_layernorm(residual)));
  }

  nn::Dropout resid_attn_dropout;
  nn::Dropout resid_mlp_dropout;
};

using Phi3ForCausalLM MODEL_ENTRY("causal-lm") = mistral::MistralForCausalLM;
using Phi3ForSequenceClassification MODEL_ENTRY("sequence-classification") = mistral::MistralForSequenceClassification;
using Phi3ForTokenClassification MODEL_ENTRY("token-classification") = mistral::MistralForTokenClassification;

}  // namespace modular::phi3
