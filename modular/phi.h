// Phi (Li et al., 2023), as in Hugging Face transformers: attention and feed-forward network in parallel after
// one layer norm, biases everywhere, and rotary positions for a part of each head.
#pragma once

#include <string>

#include "modular/llama.h"

namespace modular::phi {
MODULAR_FAMILY(Phi, .members = {{"norm", "final_layernorm"}, {"o_proj", "dense"}});

struct PhiConfig : llama::LlamaConfig {
  int64_t vocab_size = 51200;
  int64_t hidden_size = 2048;
  int64_t intermediate_size = 8192;
  int64_t num_hidden_layers = 24;
  double resid_pdrop = 0.0;
  double embd_pdrop = 0.0;
  std::string hidden_act = "gelu_new";
  double layer_norm_eps = 1e-5;
  RopeParameters rope_parameters = partial_rotary(0.5);
  bool qk_layernorm = false;

 private:
  using LlamaConfig::attention_bias;
  using LlamaConfig::mlp_bias;
  using LlamaConfig::rms_norm_eps;
};

class PhiAttentionImpl : public llama::LlamaAttentionImpl {
 public:
  explicit PhiAttentionImpl(const PhiConfig& config) : LlamaAttentionImpl(config) {
    q_proj = register_module("q_proj", linear(config.hidden_size, num_heads * head_dim, /*bias=*/true));
    k_proj = register_module("k_proj", linear(config.hidden_size, num_key_value_heads * head_dim, /*bias=*/true));
    v_proj = register_module("v_proj", linear(config.hidden_size, num_key_value_heads * head_dim, /*bias=*/true));
    o_proj = register_module("o_proj", linear(num_heads * head_dim, config.hidden_size, /*bias=*/true));
    if (config.qk_layernorm) {
      q_layernorm = register_module("q_layernorm", LayerNorm(head_dim, config.layer_norm_eps));
      k_layernorm = register_module("k_layernorm", LayerNorm(head_dim, config.layer_norm_eps));
    }
  }

  Tensor attend(const Tensor& query, const Tensor& key, const Tensor& value, const RotaryTables& rotary_embeddings,
                const Tensor& mask) {
    const Tensor normed_query = q_layernorm ? q_layernorm(query) : query;
    const Tensor normed_key = k_layernorm ? k_layernorm(key) : key;
    return LlamaAttentionImpl::attend(normed_query, normed_key, value, rotary_embeddings, mask);
  }

  LayerNorm q_layernorm{nullptr};  // where the config says qk_layernorm
  LayerNorm k_layernorm{nullptr};
};
TORCH_MODULE(PhiAttention);

/// Feed-forward network of two layers.
class PhiMLPImpl : public Module {
 public:
  explicit PhiMLPImpl(const PhiConfig& config)
      : fc1(register_module("fc1", linear(config.hidden_size, config.intermediate_size, /*bias=*/true))),
        fc2(register_module("fc2", linear(config.intermediate_size, config.hidden_size, /*bias=*/true))),
        hidden_act(config.hidden_act),
        initializer_range(config.initializer_range) {}

  Tensor forward(const Tensor& hidden_states) { return fc2(activation(hidden_act, fc1(hidden_states))); }

  void reset_parameters() override { init::linear_and_embedding_(*this, initializer_range); }

  TP_COLWISE nn::Linear fc1;
  TP_ROWWISE nn::Linear fc2;
  std::string hidden_act;
  double initializer_range;
};
TORCH_MODULE(PhiMLP);

/// Attention and feed-forward network of the same normed values, with a residual connection.
class PhiDecoderLayerImpl : public llama::LlamaDecoderLayerImpl {
 public:
  PhiDecoderLayerImpl(const PhiConfig& config, int64_t /*layer*/) : LlamaDecoderLayerImpl(config, /*layer=*/0) {
    input_layernorm = register_module("input_layernorm", LayerNorm(config.hidden_size, config.layer_norm_eps));
  }

  Tensor forward(const Tensor& hidden_states, const RotaryTables& rotary_embeddings, const Tensor& mask) {
    const Tensor normed = input_layernorm(hidden_states);
    return self_attn(normed, rotary_embeddings, mask) + mlp(normed) + hidden_states;
  }

  LayerNorm input_layernorm;

 private:
  using LlamaDecoderLayerImpl::post_attention_layernorm;
};
TORCH_MODULE(PhiDecoderLayer);

class PhiModelImpl : public llama::LlamaModelImpl {
 public:
  explicit PhiModelImpl(const PhiConfig& config) : LlamaModelImpl(config) {
    norm = register_module("norm", LayerNorm(config.hidden_size, config.layer_norm_eps));
  }

  PP_LAST LayerNorm norm;
};
TORCH_MODULE(PhiModel);

class MODEL_ENTRY("causal-lm") PhiForCausalLMImpl : public llama::LlamaForCausalLMImpl {
 public:
  explicit PhiForCausalLMImpl(const PhiConfig& config) : LlamaForCausalLMImpl(config) {
    lm_head = register_module("lm_head", linear(config.hidden_size, config.vocab_size, /*bias=*/true));
  }
};
TORCH_MODULE(PhiForCausalLM);

using PhiForSequenceClassification MODEL_ENTRY("sequence-classification") = llama::LlamaForSequenceClassification;
using PhiForTokenClassification MODEL_ENTRY("token-classification") = llama::LlamaForTokenClassification;

}  // namespace modular::phi
