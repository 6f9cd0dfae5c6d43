// GPT-2 (Radford et al., 2019), as in Hugging Face transformers.
#pragma once

#include <cmath>
#include <optional>
#include <string>

#include "modular/modular.h"

namespace modular::gpt2 {
MODULAR_FAMILY(GPT2);

struct GPT2Config : Config {
  int64_t vocab_size = 50257;
  int64_t n_positions = 1024;
  int64_t n_embd = 768;
  int64_t n_layer = 12;
  int64_t n_head = 12;
  std::optional<int64_t> n_inner;  // 4 * n_embd when not given
  std::string activation_function = "gelu_new";
  double resid_pdrop = 0.1;
  double embd_pdrop = 0.1;
  double attn_pdrop = 0.1;
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  bool scale_attn_weights = true;
  bool scale_attn_by_inverse_layer_idx = false;
  bool reorder_and_upcast_attn = false;  // no effect: attention always computes in float32 internally
  bool add_cross_attention = false;
  std::optional<int64_t> pad_token_id;  // for the classifier: the embedding is without a padding row
  bool tie_word_embeddings = true;
  std::optional<double> classifier_dropout;  // dropout of the token classifier; 0.1 when not given
  int64_t num_labels = 2;                    // number of classifier labels
  std::optional<std::string> problem_type;   // selects the loss of classifiers

  void finish() {
    if (n_head < 1 || n_embd % n_head != 0) throw ConfigError("n_embd must be a multiple of n_head");
    if (!n_inner) n_inner = 4 * n_embd;
    if (add_cross_attention) throw ConfigError("add_cross_attention is not supported: set it to false");
  }
};

/// Causal self-attention with one fused projection for query, key and value.
class GPT2AttentionImpl : public Module {
 public:
  GPT2AttentionImpl(const GPT2Config& config, int64_t layer)
      : config(config),
        num_heads(config.n_head),
        head_dim(config.n_embd / config.n_head),
        scaling((config.scale_attn_weights ? 1.0 / std::sqrt(static_cast<double>(head_dim)) : 1.0) /
                (config.scale_attn_by_inverse_layer_idx ? static_cast<double>(layer + 1) : 1.0)),
        c_attn(TransposedLinear(config.n_embd, 3 * config.n_embd)),
        c_proj(TransposedLinear(config.n_embd, config.n_embd)),
        attn_dropout(nn::Dropout(config.attn_pdrop)),
        resid_dropout(nn::Dropout(config.resid_pdrop)) {}

  Tensor forward(const Tensor& hidden_states, const AttentionMask& mask) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1);
    const auto parts = c_attn(hidden_states).view({batch, seq, 3, num_heads, head_dim}).unbind(2);
    const Tensor query = parts[0].transpose(1, 2), key = parts[1].transpose(1, 2), value = parts[2].transpose(1, 2);
    return resid_dropout(c_proj(attention(query, key, value, mask, scaling, attn_dropout)));
  }

  void reset_parameters() override {
    init::normal_(c_attn->weight, 0.0, config.initializer_range);
    init::zeros_(c_attn->bias);
    init::normal_(c_proj->weight, 0.0, config.initializer_range / std::sqrt(2.0 * static_cast<double>(config.n_layer)));
    init::zeros_(c_proj->bias);
  }

  GPT2Config config;
  TP_LOCAL int64_t num_heads;
  int64_t head_dim;
  double scaling;
  TP_COLWISE_PARTS(config.n_embd, config.n_embd, config.n_embd) TransposedLinear c_attn;
  TP_ROWWISE TransposedLinear c_proj;
  nn::Dropout attn_dropout;
  nn::Dropout resid_dropout;
};

/// Feed-forward network.
class GPT2MLPImpl : public Module {
 public:
  explicit GPT2MLPImpl(const GPT2Config& config)
      : config(config),
        c_fc(TransposedLinear(config.n_embd, *config.n_inner)),
        c_proj(TransposedLinear(*config.n_inner, config.n_embd)),
        dropout(nn::Dropout(config.resid_pdrop)) {}

  Tensor forward(const Tensor& hidden_states) {
    return dropout(c_proj(activation(config.activation_function, c_fc(hidden_states))));
  }

  void reset_parameters() override {
    init::normal_(c_fc->weight, 0.0, config.initializer_range);
    init::zeros_(c_fc->bias);
    init::normal_(c_proj->weight, 0.0, config.initializer_range / std::sqrt(2.0 * static_cast<double>(config.n_layer)));
    init::zeros_(c_proj->bias);
  }

  GPT2Config config;
  TP_COLWISE TransposedLinear c_fc;
  TP_ROWWISE TransposedLinear c_proj;
  nn::Dropout dropout;
};

/// Attention and feed-forward network, each after a norm, with a residual connection.
class FSDP_UNIT GPT2BlockImpl : public Module {
 public:
  GPT2BlockImpl(const GPT2Config& config, int64_t layer)
      : ln_1(LayerNorm(config.n_embd, config.layer_norm_epsilon)),
        attn(GPT2Attention(config, layer)),
        ln_2(LayerNorm(config.n_embd, config.layer_norm_epsilon)),
        mlp(GPT2MLP(config)) {}

  Tensor forward(const Tensor& hidden_states, const AttentionMask& mask) {
    const Tensor residual = attn(ln_1(hidden_states), mask) + hidden_states;
    return residual + mlp(ln_2(residual));
  }

  LayerNorm ln_1;
  GPT2Attention attn;
  LayerNorm ln_2;
  GPT2MLP mlp;
};

/// Embeddings of tokens and positions, blocks and final norm.
class GPT2ModelImpl : public Module {
 public:
  explicit GPT2ModelImpl(const GPT2Config& config)
      : Module(config.initializer_range),
        config(config),
        wte(embedding(config.vocab_size, config.n_embd, std::nullopt)),
        wpe(embedding(config.n_positions, config.n_embd, std::nullopt)),
        drop(nn::Dropout(config.embd_pdrop)),
        h(ModuleListOf<GPT2Block>()),
        ln_f(LayerNorm(config.n_embd, config.layer_norm_epsilon)) {
    for (int64_t layer = 0; layer < config.n_layer; ++layer) h->push_back(GPT2Block(config, layer));
  }

  /// Token and position embeddings: [batch, seq, hidden].
  Tensor embed(const Batch& batch) { return drop(wte(batch.input_ids) + wpe(position_ids(batch))); }

  /// The keys that each query attends to.
  AttentionMask attention_mask(const Batch& batch) { return causal_mask(batch, /*window=*/0); }

  Tensor forward(const Batch& batch) {
    Tensor hidden_states = embed(batch);
    const AttentionMask mask = attention_mask(batch);
    for (auto& block : *h) hidden_states = block(hidden_states, mask);
    return ln_f(hidden_states);
  }

  GPT2Config config;
  PP_FIRST TP_VOCAB nn::Embedding wte;
  PP_FIRST nn::Embedding wpe;
  nn::Dropout drop;
  PP_SPLIT ModuleListOf<GPT2Block> h;
  PP_LAST LayerNorm ln_f;
};

/// Predicts the next token.
class MODEL_ENTRY("causal-lm") FSDP_UNIT GPT2LMHeadModelImpl : public Module {
 public:
  explicit GPT2LMHeadModelImpl(const GPT2Config& config)
      : Module(config.initializer_range),
        config(config),
        transformer(GPT2Model(config)),
        lm_head(linear(config.n_embd, config.vocab_size, /*bias=*/false)) {}

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = transformer(batch);
    return cross_entropy_outputs(lm_head(hidden_states), batch, next_tokens);
  }

  GPT2Config config;
  GPT2Model transformer;
  PP_LAST TP_VOCAB TIED_TO(transformer->wte->weight) nn::Linear lm_head;
};

/// Classifies sequences by their last token.
class MODEL_ENTRY("sequence-classification") FSDP_UNIT GPT2ForSequenceClassificationImpl : public Module {
 public:
  explicit GPT2ForSequenceClassificationImpl(const GPT2Config& config)
      : Module(config.initializer_range),
        config(config),
        transformer(GPT2Model(config)),
        score(linear(config.n_embd, config.num_labels, /*bias=*/false)) {
    check_labels(config.num_labels, config.problem_type);
  }

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = transformer(batch);
    Tensor logits = score(last_tokens(hidden_states, batch.input_ids, config.pad_token_id));
    return classification_outputs(logits, batch, config.problem_type);
  }

  GPT2Config config;
  GPT2Model transformer;
  PP_LAST nn::Linear score;
};

/// Classifies each token.
class MODEL_ENTRY("token-classification") FSDP_UNIT GPT2ForTokenClassificationImpl : public Module {
 public:
  explicit GPT2ForTokenClassificationImpl(const GPT2Config& config)
      : Module(config.initializer_range),
        config(config),
        transformer(GPT2Model(config)),
        dropout(nn::Dropout(config.classifier_dropout.value_or(0.1))),
        classifier(linear(config.n_embd, config.num_labels, /*bias=*/true)) {
    check_labels(config.num_labels, config.problem_type);
  }

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = transformer(batch);
    return cross_entropy_outputs(classifier(dropout(hidden_states)), batch, same_labels);
  }

  GPT2Config config;
  GPT2Model transformer;
  nn::Dropout dropout;
  PP_LAST nn::Linear classifier;
};

}  // namespace modular::gpt2
