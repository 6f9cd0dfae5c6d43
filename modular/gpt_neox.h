// GPT-NeoX (Black et al., 2022), as in Hugging Face transformers: attention and feed-forward network in parallel or in
// sequence, each after a layer norm, with one projection for query, key and value, and RoPE on a part of each head.
#pragma once

#include <vector>

#include "modular/phi.h"

namespace modular::gpt_neox {
MODULAR_FAMILY(GPTNeoX, .members = {{"model", "gpt_neox"},
                                    {"embed_tokens", "embed_in"},
                                    {"norm", "final_layer_norm"},
                                    {"self_attn", "attention"},
                                    {"o_proj", "dense"},
                                    {"LlamaConfig::rms_norm_eps", "layer_norm_eps"},
                                    {"PhiMLP::fc1", "dense_h_to_4h"},
                                    {"PhiMLP::fc2", "dense_4h_to_h"}});

struct GPTNeoXConfig : llama::LlamaConfig {
  int64_t vocab_size = 50432;
  int64_t hidden_size = 6144;
  int64_t intermediate_size = 24576;
  int64_t num_hidden_layers = 44;
  int64_t num_attention_heads = 64;
  std::string hidden_act = "gelu";
  double hidden_dropout = 0.0;
  std::optional<double> classifier_dropout = 0.1;
  double rms_norm_eps = 1e-5;
  bool use_parallel_residual = true;
  RopeParameters rope_parameters = partial_rotary(0.25);
  bool attention_bias = true;

  void finish() {
    if (num_attention_heads < 1 || hidden_size % num_attention_heads != 0)
      throw ConfigError("hidden_size must be a multiple of num_attention_heads");
    head_dim = hidden_size / num_attention_heads;
  }

  static std::vector<StoredAs> stored_as() { return {{"lm_head.weight", {"embed_out.weight"}}}; }

 private:
  using LlamaConfig::mlp_bias, LlamaConfig::num_key_value_heads;
};

using GPTNeoXMLP = phi::PhiMLP;
using GPTNeoXRMSNorm = LayerNorm;

/// Causal self-attention with RoPE. Each head's query, key and value are adjacent in one projection.
struct GPTNeoXAttentionImpl : llama::LlamaAttentionImpl {
  explicit GPTNeoXAttentionImpl(const GPTNeoXConfig& config)
      : LlamaAttentionImpl(config),
        query_key_value(linear(config.hidden_size, 3 * num_heads * head_dim, config.attention_bias)) {}

  Tensor forward(const Tensor& hidden_states, const RotaryTables& rotary_embeddings, const AttentionMask& mask) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1);
    const Tensor heads = query_key_value(hidden_states).view({batch, seq, num_heads, 3 * head_dim}).transpose(1, 2);
    const auto parts = heads.chunk(3, -1);
    return o_proj(attend(parts[0], parts[1], parts[2], rotary_embeddings, mask));
  }

  TP_COLWISE nn::Linear query_key_value;

 private:
  using LlamaAttentionImpl::k_proj, LlamaAttentionImpl::num_key_value_heads, LlamaAttentionImpl::q_proj,
      LlamaAttentionImpl::v_proj;
};

/// Attention and feed-forward network, each after a norm, in parallel or in sequence.
struct STANDS_FOR(llama::LlamaDecoderLayer) GPTNeoXLayerImpl : llama::LlamaDecoderLayerImpl {
  GPTNeoXLayerImpl(const GPTNeoXConfig& config, int64_t /*layer*/)
      : LlamaDecoderLayerImpl(config, /*layer=*/0),
        post_attention_dropout(nn::Dropout(config.hidden_dropout)),
        post_mlp_dropout(nn::Dropout(config.hidden_dropout)),
        use_parallel_residual(config.use_parallel_residual) {}

  Tensor forward(const Tensor& hidden_states, const RotaryTables& rotary_embeddings, const AttentionMask& mask) {
    const Tensor mixed = post_attention_dropout(self_attn(input_layernorm(hidden_states), rotary_embeddings, mask));
    if (use_parallel_residual)
      return post_mlp_dropout(mlp(post_attention_layernorm(hidden_states))) + mixed + hidden_states;
    const Tensor residual = mixed + hidden_states;
    return post_mlp_dropout(mlp(post_attention_layernorm(residual))) + residual;
  }

  nn::Dropout post_attention_dropout;
  nn::Dropout post_mlp_dropout;
  bool use_parallel_residual;
};

struct GPTNeoXModelImpl : llama::LlamaModelImpl {
  explicit GPTNeoXModelImpl(const GPTNeoXConfig& config)
      : LlamaModelImpl(config), emb_dropout(nn::Dropout(config.hidden_dropout)) {
    embed_tokens = remake(embed_tokens, embedding(config.vocab_size, config.hidden_size, std::nullopt));
  }

  Tensor embed(const Tensor& input_ids) { return emb_dropout(embed_tokens(input_ids)); }

  nn::Dropout emb_dropout;
};

using GPTNeoXForCausalLM MODEL_ENTRY("causal-lm") = llama::LlamaForCausalLM;
using GPTNeoXForSequenceClassification MODEL_ENTRY("sequence-classification") = llama::LlamaForSequenceClassification;

struct MODEL_ENTRY("token-classification") GPTNeoXForTokenClassificationImpl : llama::LlamaForTokenClassificationImpl {
  explicit GPTNeoXForTokenClassificationImpl(const GPTNeoXConfig& config)
      : LlamaForTokenClassificationImpl(config),
        classifier(linear(config.hidden_size, config.num_labels, /*bias=*/true)) {}

  Tensor classify(const Tensor& hidden_states, const Batch&) { return classifier(dropout(hidden_states)); }

  PP_LAST nn::Linear classifier;

 private:
  using LlamaForTokenClassificationImpl::score;
};

}  // namespace modular::gpt_neox
