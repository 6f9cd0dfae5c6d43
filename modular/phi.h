// Phi (Li et al., 2023), as in Hugging Face transformers: attention and feed-forward network in parallel after one
// layer norm, biases everywhere, and RoPE on a part of each head.
#pragma once

#include "modular/llama.h"

namespace modular::phi {
MODULAR_FAMILY(Phi,
               .members = {
                   {"norm", "final_layernorm"}, {"o_proj", "dense"}, {"LlamaConfig::rms_norm_eps", "layer_norm_eps"}});

struct PhiConfig : llama::LlamaConfig {
  int64_t vocab_size = 51200;
  int64_t hidden_size = 2048;
  int64_t intermediate_size = 8192;
  int64_t num_hidden_layers = 24;
  double resid_pdrop = 0.0;
  double embd_pdrop = 0.0;
  std::string hidden_act = "gelu_new";
  double rms_norm_eps = 1e-5;
  RopeParameters rope_parameters = partial_rotary(0.5);
  static constexpr bool attention_bias = true;
  bool qk_layernorm = false;

 private:
  using LlamaConfig::mlp_bias;
};

using PhiRMSNorm = LayerNorm;

struct PhiAttentionImpl : llama::LlamaAttentionImpl {
  explicit PhiAttentionImpl(const PhiConfig& config) : LlamaAttentionImpl(config) {
    if (config.qk_layernorm) {
      q_layernorm = LayerNorm(head_dim, config.rms_norm_eps);
      k_layernorm = LayerNorm(head_dim, config.rms_norm_eps);
    }
  }

  Tensor attend(const Tensor& query, const Tensor& key, const Tensor& value, const RotaryTables& rotary_embeddings,
                const AttentionMask& mask) {
    const Tensor normed_query = q_layernorm ? q_layernorm(query) : query;
    const Tensor normed_key = k_layernorm ? k_layernorm(key) : key;
    return LlamaAttentionImpl::attend(normed_query, normed_key, value, rotary_embeddings, mask);
  }

  LayerNorm q_layernorm{nullptr};  // set if config.qk_layernorm
  LayerNorm k_layernorm{nullptr};
};

/// Feed-forward network of two layers.
class PhiMLPImpl : public Module {
 public:
  explicit PhiMLPImpl(const PhiConfig& config)
      : Module(config.initializer_range),
        fc1(linear(config.hidden_size, config.intermediate_size, /*bias=*/true)),
        fc2(linear(config.intermediate_size, config.hidden_size, /*bias=*/true)),
        hidden_act(config.hidden_act) {}

  Tensor forward(const Tensor& hidden_states) { return fc2(activation(hidden_act, fc1(hidden_states))); }

  TP_COLWISE nn::Linear fc1;
  TP_ROWWISE nn::Linear fc2;
  std::string hidden_act;
};

/// Attention and feed-forward network in parallel on the same normed input, with a residual connection.
struct PhiDecoderLayerImpl : llama::LlamaDecoderLayerImpl {
  PhiDecoderLayerImpl(const PhiConfig& config, int64_t layer)
      : LlamaDecoderLayerImpl(config, layer), resid_dropout(nn::Dropout(config.resid_pdrop)) {}

  Tensor forward(const Tensor& hidden_states, const RotaryTables& rotary_embeddings, const AttentionMask& mask) {
    const Tensor normed = input_layernorm(hidden_states);
    const Tensor mixed = resid_dropout(self_attn(normed, rotary_embeddings, mask));
    return mixed + resid_dropout(mlp(normed)) + hidden_states;
  }

  nn::Dropout resid_dropout;

 private:
  using LlamaDecoderLayerImpl::post_attention_layernorm;
};

struct PhiModelImpl : llama::LlamaModelImpl {
  explicit PhiModelImpl(const PhiConfig& config)
      : LlamaModelImpl(config), embed_dropout(nn::Dropout(config.embd_pdrop)) {}

  Tensor embed(const Tensor& input_ids) { return embed_dropout(embed_tokens(input_ids)); }

  nn::Dropout embed_dropout;
};

struct MODEL_ENTRY("causal-lm") PhiForCausalLMImpl : llama::LlamaForCausalLMImpl {
  explicit PhiForCausalLMImpl(const PhiConfig& config) : LlamaForCausalLMImpl(config) {
    lm_head = remake(lm_head, linear(config.hidden_size, config.vocab_size, /*bias=*/true));
  }
};

using PhiForSequenceClassification MODEL_ENTRY("sequence-classification") = llama::LlamaForSequenceClassification;
using PhiForTokenClassification MODEL_ENTRY("token-classification") = llama::LlamaForTokenClassification;

}  // namespace modular::phi
