// Llama (Touvron et al., 2023), as in Hugging Face transformers.
#pragma once

#include <cmath>
#include <optional>
#include <string>

#include "modular/modular.h"

namespace modular::llama {
MODULAR_FAMILY(Llama);

struct LlamaConfig : Config {
  int64_t vocab_size = 32000;
  int64_t hidden_size = 4096;
  int64_t intermediate_size = 11008;
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  std::optional<int64_t> num_key_value_heads;  // as many as attention heads when not given
  std::optional<int64_t> head_dim;             // hidden_size / num_attention_heads when not given
  std::string hidden_act = "silu";
  int64_t max_position_embeddings = 2048;
  double initializer_range = 0.02;
  double rms_norm_eps = 1e-6;
  std::optional<int64_t> pad_token_id;
  bool tie_word_embeddings = false;
  RopeParameters rope_parameters;
  bool attention_bias = false;
  double attention_dropout = 0.0;
  bool mlp_bias = false;
  std::optional<double> classifier_dropout;  // dropout of the token classifier; 0.1 when not given
  int64_t num_labels = 2;                    // number of classifier labels
  std::optional<std::string> problem_type;   // selects the loss of classifiers

  void finish() {
    if (num_attention_heads < 1) throw ConfigError("num_attention_heads must be at least 1");
    if (!num_key_value_heads) num_key_value_heads = num_attention_heads;
    if (num_attention_heads % *num_key_value_heads != 0)
      throw ConfigError("num_attention_heads must be a multiple of num_key_value_heads");
    if (!head_dim) {
      if (hidden_size % num_attention_heads != 0)
        throw ConfigError("hidden_size must be a multiple of num_attention_heads, or give head_dim");
      head_dim = hidden_size / num_attention_heads;
    }
  }
};

/// RMSNorm with a learned scale.
class LlamaRMSNormImpl : public Module {
 public:
  LlamaRMSNormImpl(int64_t hidden_size, double eps)
      : weight(register_parameter("weight", torch::ones({hidden_size}))), eps(eps) {}

  Tensor forward(const Tensor& hidden_states) { return rms_norm(hidden_states, weight, eps); }

  void reset_parameters() override { init::ones_(weight); }

  Tensor weight;  // [hidden]
  double eps;
};

/// Gated feed-forward network.
class LlamaMLPImpl : public Module {
 public:
  explicit LlamaMLPImpl(const LlamaConfig& config)
      : Module(config.initializer_range),
        gate_proj(linear(config.hidden_size, config.intermediate_size, config.mlp_bias)),
        up_proj(linear(config.hidden_size, config.intermediate_size, config.mlp_bias)),
        down_proj(linear(config.intermediate_size, config.hidden_size, config.mlp_bias)),
        hidden_act(config.hidden_act) {}

  Tensor forward(const Tensor& x) { return down_proj(gated_activation(hidden_act, gate_proj(x), up_proj(x))); }

  TP_COLWISE nn::Linear gate_proj;
  TP_COLWISE nn::Linear up_proj;
  TP_ROWWISE nn::Linear down_proj;
  std::string hidden_act;
};

/// Causal grouped-query self-attention with RoPE.
class LlamaAttentionImpl : public Module {
 public:
  explicit LlamaAttentionImpl(const LlamaConfig& config)
      : Module(config.initializer_range),
        num_heads(config.num_attention_heads),
        num_key_value_heads(*config.num_key_value_heads),
        head_dim(*config.head_dim),
        scaling(1.0 / std::sqrt(static_cast<double>(head_dim))),
        q_proj(linear(config.hidden_size, num_heads * head_dim, config.attention_bias)),
        k_proj(linear(config.hidden_size, num_key_value_heads * head_dim, config.attention_bias)),
        v_proj(linear(config.hidden_size, num_key_value_heads * head_dim, config.attention_bias)),
        o_proj(linear(num_heads * head_dim, config.hidden_size, config.attention_bias)),
        attention_dropout(nn::Dropout(config.attention_dropout)) {}

  Tensor forward(const Tensor& hidden_states, const RotaryTables& rotary_embeddings, const AttentionMask& mask) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1);
    Tensor query = q_proj(hidden_states).view({batch, seq, num_heads, head_dim}).transpose(1, 2);
    Tensor key = k_proj(hidden_states).view({batch, seq, num_key_value_heads, head_dim}).transpose(1, 2);
    Tensor value = v_proj(hidden_states).view({batch, seq, num_key_value_heads, head_dim}).transpose(1, 2);
    return o_proj(attend(query, key, value, rotary_embeddings, mask));
  }

  /// Applies RoPE to queries and keys and computes attention.
  Tensor attend(const Tensor& query, const Tensor& key, const Tensor& value, const RotaryTables& rotary_embeddings,
                const AttentionMask& mask) {
    const auto& [cos, sin] = rotary_embeddings;
    return attention(rotary(query, cos, sin), rotary(key, cos, sin), value, mask, scaling, attention_dropout);
  }

  TP_LOCAL int64_t num_heads;
  TP_LOCAL int64_t num_key_value_heads;
  int64_t head_dim;
  double scaling;
  TP_COLWISE nn::Linear q_proj;
  TP_COLWISE nn::Linear k_proj;
  TP_COLWISE nn::Linear v_proj;
  TP_ROWWISE nn::Linear o_proj;
  nn::Dropout attention_dropout;
};

/// Attention and feed-forward network, each after a norm, with a residual connection.
class FSDP_UNIT LlamaDecoderLayerImpl : public Module {
 public:
  LlamaDecoderLayerImpl(const LlamaConfig& config, int64_t /*layer*/)
      : self_attn(LlamaAttention(config)),
        mlp(LlamaMLP(config)),
        input_layernorm(LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)),
        post_attention_layernorm(LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)) {}

  Tensor forward(const Tensor& hidden_states, const RotaryTables& rotary_embeddings, const AttentionMask& mask) {
    Tensor residual = hidden_states + self_attn(input_layernorm(hidden_states), rotary_embeddings, mask);
    return residual + mlp(post_attention_layernorm(residual));
  }

  LlamaAttention self_attn;
  LlamaMLP mlp;
  LlamaRMSNorm input_layernorm;
  LlamaRMSNorm post_attention_layernorm;
};

/// Embedding, decoder layers and final norm.
class LlamaModelImpl : public Module {
 public:
  explicit LlamaModelImpl(const LlamaConfig& config)
      : Module(config.initializer_range),
        config(config),
        embed_tokens(embedding(config.vocab_size, config.hidden_size, config.pad_token_id)),
        layers(ModuleListOf<LlamaDecoderLayer>()),
        norm(LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)) {
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
      layers->push_back(LlamaDecoderLayer(config, layer));
  }

  /// Token embeddings: [batch, seq, hidden].
  Tensor embed(const Tensor& input_ids) { return embed_tokens(input_ids); }

  /// The keys that each query attends to, as causal_mask returns them.
  AttentionMask attention_mask(const Batch& batch) { return causal_mask(batch, /*window=*/0); }

  /// Rotary tables for the batch's positions, in the embeddings' type.
  RotaryTables rotary_positions(const Batch& batch, at::ScalarType type) {
    return rotary_tables(config.rope_parameters, *config.head_dim, config.max_position_embeddings, batch, type);
  }

  Tensor forward(const Batch& batch) {
    Tensor hidden_states = embed(batch.input_ids);
    const RotaryTables rotary_embeddings = rotary_positions(batch, hidden_states.scalar_type());
    const AttentionMask mask = attention_mask(batch);
    for (auto& layer : *layers) hidden_states = layer(hidden_states, rotary_embeddings, mask);
    return norm(hidden_states);
  }

  LlamaConfig config;
  PP_FIRST TP_VOCAB nn::Embedding embed_tokens;
  PP_SPLIT ModuleListOf<LlamaDecoderLayer> layers;
  PP_LAST LlamaRMSNorm norm;
};

/// Predicts the next token.
class MODEL_ENTRY("causal-lm") FSDP_UNIT LlamaForCausalLMImpl : public Module {
 public:
  explicit LlamaForCausalLMImpl(const LlamaConfig& config)
      : Module(config.initializer_range),
        config(config),
        model(LlamaModel(config)),
        lm_head(linear(config.hidden_size, config.vocab_size, /*bias=*/false)) {}

  /// Scores of the next tokens: [batch, seq, vocab].
  Tensor project(const Tensor& hidden_states) { return lm_head(hidden_states); }

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = model(batch);
    return cross_entropy_outputs(project(hidden_states), batch, next_tokens);
  }

  LlamaConfig config;
  LlamaModel model;
  PP_LAST TP_VOCAB TIED_TO(model->embed_tokens->weight) nn::Linear lm_head;
};

/// Classifies sequences by their last token.
class MODEL_ENTRY("sequence-classification") FSDP_UNIT LlamaForSequenceClassificationImpl : public Module {
 public:
  explicit LlamaForSequenceClassificationImpl(const LlamaConfig& config)
      : Module(config.initializer_range),
        config(config),
        model(LlamaModel(config)),
        score(linear(config.hidden_size, config.num_labels, /*bias=*/false)) {
    check_labels(config.num_labels, config.problem_type);
  }

  /// Scores of the labels: [batch, labels].
  Tensor classify(const Tensor& hidden_states, const Batch& batch) {
    return score(last_tokens(hidden_states, batch.input_ids, config.pad_token_id));
  }

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = model(batch);
    return classification_outputs(classify(hidden_states, batch), batch, config.problem_type);
  }

  LlamaConfig config;
  LlamaModel model;
  PP_LAST nn::Linear score;
};

/// Classifies each token.
class MODEL_ENTRY("token-classification") FSDP_UNIT LlamaForTokenClassificationImpl
    : public LlamaForSequenceClassificationImpl {
 public:
  explicit LlamaForTokenClassificationImpl(const LlamaConfig& config)
      : LlamaForSequenceClassificationImpl(config), dropout(nn::Dropout(config.classifier_dropout.value_or(0.1))) {
    score = remake(score, linear(config.hidden_size, config.num_labels, /*bias=*/true));
  }

  /// Scores of the labels: [batch, seq, labels].
  Tensor classify(const Tensor& hidden_states, const Batch&) { return score(dropout(hidden_states)); }

  nn::Dropout dropout;
};

/// The base model as a sentence encoder (Reimers & Gurevych, Sentence-BERT).
class MODEL_ENTRY("sentence-embedding", "LlamaModel") FSDP_UNIT LlamaForSentenceEmbeddingImpl : public LlamaModelImpl {
 public:
  explicit LlamaForSentenceEmbeddingImpl(const LlamaConfig& config) : LlamaModelImpl(config) {}

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = LlamaModelImpl::forward(batch);
    return sentence_outputs(sentence_embeddings(hidden_states, batch), batch);
  }
};

}  // namespace modular::llama
