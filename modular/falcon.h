// Falcon (Almazrouei et al., 2023), as in Hugging Face transformers: BLOOM's arrangement with RoPE or ALiBi, with
// attention and feed-forward network in parallel or in sequence, and with heads that share keys and values. One
// projection has, for each key and value head, its query heads, then the key, then the value; multi-query attention has
// one such group.
#pragma once

#include <vector>

#include "modular/bloom.h"

namespace modular::falcon {
MODULAR_FAMILY(Falcon, .members = {{"n_layer", "num_hidden_layers"}, {"n_head", "num_attention_heads"}});

struct FalconConfig : bloom::BloomConfig {
  int64_t vocab_size = 65024;
  int64_t n_embd = 4544;
  int64_t n_layer = 32;
  int64_t n_head = 71;
  std::optional<int64_t>
      num_ln_in_parallel_attn;          // norms of a parallel layer: 2 when not given in the new architecture
  std::optional<int64_t> num_kv_heads;  // as many as attention heads when not given; unused by multi-query attention
  int64_t effective_kv_heads = 1;       // those that attention has, which finish() sets
  bool alibi = false;
  bool new_decoder_architecture = false;
  bool multi_query = true;    // unused by the new architecture
  bool parallel_attn = true;  // attention and feed-forward network read the same value
  bool bias = false;
  int64_t max_position_embeddings = 2048;
  RopeParameters rope_parameters;
  std::optional<int64_t> ffn_hidden_size;  // 4 * hidden_size when not given
  std::string activation = "gelu";

  void finish() {
    if (n_embd % n_head != 0) throw ConfigError("hidden_size must be a multiple of num_attention_heads");
    if (!num_kv_heads) num_kv_heads = n_head;
    effective_kv_heads = multi_query && !new_decoder_architecture ? 1 : *num_kv_heads;
    if (effective_kv_heads < 1 || n_head % effective_kv_heads != 0)
      throw ConfigError("num_attention_heads must be a multiple of num_kv_heads, which is at least 1");
    if (!new_decoder_architecture && !multi_query && *num_kv_heads != n_head)
      throw ConfigError("num_kv_heads must be num_attention_heads without multi_query and new_decoder_architecture");
    if (new_decoder_architecture && !parallel_attn)
      throw ConfigError("parallel_attn must be true in the new architecture: set new_decoder_architecture to false");
    const int64_t norms = num_ln_in_parallel_attn.value_or(1);
    if (norms < 1 || norms > 2 || (norms == 2 && !new_decoder_architecture))
      throw ConfigError("num_ln_in_parallel_attn must be 1, or 2 if new_decoder_architecture is true");
    if (!ffn_hidden_size) ffn_hidden_size = 4 * n_embd;
    if (!classifier_dropout) classifier_dropout = hidden_dropout;
  }

  /// Whether attention and feed-forward network have a norm each, of the same value.
  bool has_two_norms() const { return new_decoder_architecture && num_ln_in_parallel_attn.value_or(2) == 2; }

 private:
  using BloomConfig::apply_residual_connection_post_layernorm, BloomConfig::slow_but_exact;
};

/// Causal self-attention with RoPE, or if `biases` are defined, with these added to the scores; they also mask keys.
class FalconAttentionImpl : public Module {
 public:
  FalconAttentionImpl(const FalconConfig& config, int64_t /*layer*/)
      : Module(config.initializer_range),
        num_kv_heads(config.effective_kv_heads),
        group_size(config.n_head / config.effective_kv_heads),
        head_dim(config.n_embd / config.n_head),
        scaling(1.0 / std::sqrt(static_cast<double>(head_dim))),
        query_key_value(linear(config.n_embd, num_kv_heads * (group_size + 2) * head_dim, config.bias)),
        dense(linear(config.n_embd, config.n_embd, config.bias)),
        attention_dropout(nn::Dropout(config.attention_dropout)) {}

  Tensor forward(const Tensor& hidden_states, const RotaryTables& rotary_embeddings, const AttentionMask& mask,
                 const Tensor& biases) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1);
    const Tensor groups = query_key_value(hidden_states).view({batch, seq, num_kv_heads, group_size + 2, head_dim});
    const Tensor query = groups.slice(3, 0, group_size).flatten(2, 3).transpose(1, 2);
    const Tensor key = groups.select(3, group_size).transpose(1, 2);
    const Tensor value = groups.select(3, group_size + 1).transpose(1, 2);
    if (biases.defined()) return dense(attention_with_biases(query, key, value, biases, scaling, attention_dropout));
    const auto& [cos, sin] = rotary_embeddings;
    // The original has no dropout here.
    return dense(attention(rotary(query, cos, sin), rotary(key, cos, sin), value, mask, scaling));
  }

  TP_LOCAL int64_t num_kv_heads;
  int64_t group_size;  // query heads per key and value head
  int64_t head_dim;
  double scaling;
  TP_COLWISE nn::Linear query_key_value;
  TP_ROWWISE nn::Linear dense;
  nn::Dropout attention_dropout;
};

/// Feed-forward network.
class FalconMLPImpl : public Module {
 public:
  explicit FalconMLPImpl(const FalconConfig& config)
      : Module(config.initializer_range),
        act(config.activation),
        dense_h_to_4h(linear(config.n_embd, *config.ffn_hidden_size, config.bias)),
        dense_4h_to_h(linear(*config.ffn_hidden_size, config.n_embd, config.bias)) {}

  Tensor forward(const Tensor& x) { return dense_4h_to_h(activation(act, dense_h_to_4h(x))); }

  std::string act;
  TP_COLWISE nn::Linear dense_h_to_4h;
  TP_ROWWISE nn::Linear dense_4h_to_h;
};

/// Attention and feed-forward network, in parallel or in sequence.
class STANDS_FOR(bloom::BloomBlock) FSDP_UNIT FalconDecoderLayerImpl : public Module {
 public:
  FalconDecoderLayerImpl(const FalconConfig& config, int64_t layer)
      : has_two_norms(config.has_two_norms()),
        is_parallel(config.parallel_attn),
        self_attention(FalconAttention(config, layer)),
        mlp(FalconMLP(config)),
        residual_dropout(nn::Dropout(config.attention_dropout)),
        hidden_dropout(nn::Dropout(config.hidden_dropout)) {
    if (config.has_two_norms()) {
      ln_attn = LayerNorm(config.n_embd, config.layer_norm_epsilon);
      ln_mlp = LayerNorm(config.n_embd, config.layer_norm_epsilon);
    } else {
      input_layernorm = LayerNorm(config.n_embd, config.layer_norm_epsilon);
    }
    if (!config.parallel_attn) post_attention_layernorm = LayerNorm(config.n_embd, config.layer_norm_epsilon);
  }

  Tensor forward(const Tensor& hidden_states, const RotaryTables& rotary_embeddings, const AttentionMask& mask,
                 const Tensor& biases) {
    if (has_two_norms) {
      const Tensor attended = self_attention(ln_attn(hidden_states), rotary_embeddings, mask, biases);
      return hidden_dropout(mlp(ln_mlp(hidden_states)) + attended) + hidden_states;
    }
    const Tensor normed = input_layernorm(hidden_states);
    if (is_parallel) {
      const Tensor attended = self_attention(normed, rotary_embeddings, mask, biases);
      return hidden_dropout(mlp(normed) + attended) + hidden_states;
    }
    const Tensor mixed = residual_dropout(self_attention(normed, rotary_embeddings, mask, biases)) + hidden_states;
    return hidden_dropout(mlp(post_attention_layernorm(mixed))) + mixed;
  }

  bool has_two_norms;
  bool is_parallel;
  FalconAttention self_attention;
  FalconMLP mlp;
  nn::Dropout residual_dropout;
  nn::Dropout hidden_dropout;
  LayerNorm ln_attn{nullptr};
  LayerNorm ln_mlp{nullptr};
  LayerNorm input_layernorm{nullptr};
  LayerNorm post_attention_layernorm{nullptr};
};

/// Embeddings, layers and final norm.
class FalconModelImpl : public bloom::BloomModelImpl {
 public:
  explicit FalconModelImpl(const FalconConfig& config)
      : BloomModelImpl(config), head_dim(config.n_embd / config.n_head) {}

  /// Token embeddings: [batch, seq, hidden].
  Tensor embed(const Batch& batch) { return wte(batch.input_ids); }

  /// The biases of ALiBi, scaled like the scores; undefined without ALiBi.
  Tensor alibi_biases(const Batch& batch, at::ScalarType type) {
    if (!config.alibi) return {};
    const Tensor slopes = alibi_slopes(num_heads, batch.input_ids.device());
    return alibi_mask(batch, slopes * (1.0 / std::sqrt(static_cast<double>(head_dim))), type);
  }

  Tensor forward(const Batch& batch) {
    Tensor hidden_states = embed(batch);
    const at::ScalarType type = hidden_states.scalar_type();
    const RotaryTables rotary_embeddings =
        rotary_tables(config.rope_parameters, head_dim, config.max_position_embeddings, batch, type);
    const AttentionMask mask = causal_mask(batch, /*window=*/0);
    const Tensor biases = alibi_biases(batch, type);
    for (auto& block : *h) hidden_states = block(hidden_states, rotary_embeddings, mask, biases);
    return ln_f(hidden_states);
  }

  FalconConfig config;
  int64_t head_dim;
  ModuleListOf<FalconDecoderLayer> h;

 private:
  using BloomModelImpl::word_embeddings_layernorm;
};

using FalconForCausalLM MODEL_ENTRY("causal-lm") = bloom::BloomForCausalLM;
using FalconForSequenceClassification MODEL_ENTRY("sequence-classification") = bloom::BloomForSequenceClassification;
using FalconForTokenClassification MODEL_ENTRY("token-classification") = bloom::BloomForTokenClassification;

}  // namespace modular::falcon
