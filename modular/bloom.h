// BLOOM (BigScience Workshop, 2022), as in Hugging Face transformers: GPT-2 with linear biases on attention scores
// (ALiBi) instead of positions, a norm after the embeddings, and each head's query, key and value adjacent in one
// projection.
#pragma once

#include "modular/gpt2.h"

namespace modular::bloom {
MODULAR_FAMILY(Bloom, .title = "BLOOM",
               .members = {{"n_embd", "hidden_size"},
                           {"wte", "word_embeddings"},
                           {"ln_1", "input_layernorm"},
                           {"attn", "self_attention"},
                           {"ln_2", "post_attention_layernorm"}});

struct BloomConfig : gpt2::GPT2Config {
  int64_t vocab_size = 250880;
  int64_t n_embd = 64;
  int64_t n_layer = 2;
  int64_t n_head = 8;
  bool apply_residual_connection_post_layernorm = false;
  double hidden_dropout = 0.0;
  double attention_dropout = 0.0;
  bool slow_but_exact = false;

  void finish() {
    if (n_head < 1 || n_embd % n_head != 0) throw ConfigError("hidden_size must be a multiple of n_head");
    if (!classifier_dropout) classifier_dropout = hidden_dropout;
    if (slow_but_exact) throw ConfigError("slow_but_exact is not supported: set it to false");
  }

 private:
  using GPT2Config::activation_function, GPT2Config::add_cross_attention, GPT2Config::attn_pdrop,
      GPT2Config::embd_pdrop, GPT2Config::n_inner, GPT2Config::n_positions, GPT2Config::reorder_and_upcast_attn,
      GPT2Config::resid_pdrop, GPT2Config::scale_attn_by_inverse_layer_idx, GPT2Config::scale_attn_weights;
};

/// Causal self-attention with a bias per head: `biases` are added to the scores and also mask keys.
class BloomAttentionImpl : public Module {
 public:
  BloomAttentionImpl(const BloomConfig& config, int64_t /*layer*/)
      : Module(config.initializer_range),
        num_heads(config.n_head),
        head_dim(config.n_embd / config.n_head),
        query_key_value(linear(config.n_embd, num_heads * 3 * head_dim, /*bias=*/true)),
        dense(linear(config.n_embd, config.n_embd, /*bias=*/true)),
        attention_dropout(nn::Dropout(config.attention_dropout)),
        hidden_dropout(nn::Dropout(config.hidden_dropout)) {}

  Tensor forward(const Tensor& hidden_states, const Tensor& biases) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1);
    const Tensor heads = query_key_value(hidden_states).view({batch, seq, num_heads, 3 * head_dim}).transpose(1, 2);
    const auto parts = heads.chunk(3, -1);
    return hidden_dropout(dense(attention_with_biases(
        parts[0], parts[1], parts[2], biases, 1.0 / std::sqrt(static_cast<double>(head_dim)), attention_dropout)));
  }

  TP_LOCAL int64_t num_heads;
  int64_t head_dim;
  TP_COLWISE nn::Linear query_key_value;
  TP_ROWWISE nn::Linear dense;
  nn::Dropout attention_dropout;
  nn::Dropout hidden_dropout;
};

/// Feed-forward network.
class BloomMLPImpl : public Module {
 public:
  explicit BloomMLPImpl(const BloomConfig& config)
      : Module(config.initializer_range),
        dense_h_to_4h(linear(config.n_embd, 4 * config.n_embd, /*bias=*/true)),
        dense_4h_to_h(linear(4 * config.n_embd, config.n_embd, /*bias=*/true)),
        hidden_dropout(nn::Dropout(config.hidden_dropout)) {}

  Tensor forward(const Tensor& hidden_states) {
    return hidden_dropout(dense_4h_to_h(activation("gelu_pytorch_tanh", dense_h_to_4h(hidden_states))));
  }

  TP_COLWISE nn::Linear dense_h_to_4h;
  TP_ROWWISE nn::Linear dense_4h_to_h;
  nn::Dropout hidden_dropout;
};

/// Attention and feed-forward network, each after a norm and with a residual path, which may start after the norm.
struct BloomBlockImpl : gpt2::GPT2BlockImpl {
  BloomBlockImpl(const BloomConfig& config, int64_t layer)
      : GPT2BlockImpl(config, layer),
        apply_residual_connection_post_layernorm(config.apply_residual_connection_post_layernorm) {}

  Tensor forward(const Tensor& hidden_states, const Tensor& biases) {
    const Tensor normed = ln_1(hidden_states);
    const Tensor mixed = attn(normed, biases) + (apply_residual_connection_post_layernorm ? normed : hidden_states);
    const Tensor normed_again = ln_2(mixed);
    return mlp(normed_again) + (apply_residual_connection_post_layernorm ? normed_again : mixed);
  }

  BloomAttention attn;
  bool apply_residual_connection_post_layernorm;
};

/// Embeddings, blocks and final norm.
class BloomModelImpl : public gpt2::GPT2ModelImpl {
 public:
  explicit BloomModelImpl(const BloomConfig& config)
      : GPT2ModelImpl(config),
        num_heads(config.n_head),
        word_embeddings_layernorm(LayerNorm(config.n_embd, config.layer_norm_epsilon)) {}

  /// Normed token embeddings: [batch, seq, hidden].
  Tensor embed(const Batch& batch) { return word_embeddings_layernorm(wte(batch.input_ids)); }

  Tensor forward(const Batch& batch) {
    Tensor hidden_states = embed(batch);
    const Tensor slopes = alibi_slopes(num_heads, batch.input_ids.device());
    const Tensor biases = alibi_mask(batch, slopes, hidden_states.scalar_type());
    for (auto& block : *h) hidden_states = block(hidden_states, biases);
    return ln_f(hidden_states);
  }

  TP_LOCAL int64_t num_heads;
  PP_FIRST LayerNorm word_embeddings_layernorm;
  ModuleListOf<BloomBlock> h;

 private:
  using GPT2ModelImpl::attention_mask, GPT2ModelImpl::drop, GPT2ModelImpl::wpe;
};

using BloomForCausalLM MODEL_ENTRY("causal-lm") = gpt2::GPT2LMHeadModel;
using BloomForSequenceClassification MODEL_ENTRY("sequence-classification") = gpt2::GPT2ForSequenceClassification;
using BloomForTokenClassification MODEL_ENTRY("token-classification") = gpt2::GPT2ForTokenClassification;

}  // namespace modular::bloom
