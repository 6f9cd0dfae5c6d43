// T5 (Raffel et al., 2020), as in Hugging Face transformers: an encoder, and a decoder that attends to its output.
// Pipelines cut within both and between them. Every stage holds the distance biases, which belong to each stack's first
// layer.
#pragma once

#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "modular/modular.h"

namespace modular::t5 {
MODULAR_FAMILY(T5);

/// Whether a feed_forward_proj like "gated-gelu" has a gate.
inline bool is_gated(const std::string& feed_forward_proj) { return feed_forward_proj.starts_with("gated-"); }

/// The activation that feed_forward_proj names. Its "gated-gelu" is the tanh approximation.
inline std::string activation_name(const std::string& feed_forward_proj) {
  if (feed_forward_proj == "gated-gelu") return "gelu_new";
  return is_gated(feed_forward_proj) ? feed_forward_proj.substr(6) : feed_forward_proj;
}

struct T5Config : Config {
  int64_t vocab_size = 32128;
  int64_t d_model = 512;
  int64_t d_kv = 64;
  int64_t d_ff = 2048;
  int64_t num_layers = 6;
  std::optional<int64_t> num_decoder_layers;  // num_layers when not given
  int64_t num_heads = 8;
  int64_t relative_attention_num_buckets = 32;
  int64_t relative_attention_max_distance = 128;
  double dropout_rate = 0.1;
  double layer_norm_epsilon = 1e-6;
  double initializer_factor = 1.0;
  std::string feed_forward_proj = "relu";  // "gated-" before the activation if there is a gate
  std::optional<int64_t> pad_token_id = 0;
  int64_t eos_token_id = 1;
  std::optional<int64_t> decoder_start_token_id;  // pad_token_id when not given
  double classifier_dropout = 0.0;
  bool tie_word_embeddings = true;
  std::optional<bool> scale_decoder_outputs;  // tie_word_embeddings when not given
  int64_t num_labels = 2;                     // number of classifier labels
  std::optional<std::string> problem_type;    // selects the loss of sequence classifiers

  /// Checks that all families of this architecture share.
  void check() {
    if (d_model < 1 || d_kv < 1 || d_ff < 1) throw ConfigError("d_model, d_kv and d_ff must be at least 1");
    if (!num_decoder_layers) num_decoder_layers = num_layers;
    if (*num_decoder_layers < 1) throw ConfigError("num_decoder_layers must be at least 1");
    if (relative_attention_num_buckets < 4 || relative_attention_num_buckets % 2 != 0 ||
        relative_attention_max_distance <= relative_attention_num_buckets / 2)
      throw ConfigError(
          "relative_attention_num_buckets must be even and at least 4, and relative_attention_max_distance larger than "
          "half of it");
    if (!pad_token_id) throw ConfigError("pad_token_id must be given: the decoder reads it where a target is ignored");
    if (decoder_start_token_id && (*decoder_start_token_id < 0 || *decoder_start_token_id >= vocab_size))
      throw ConfigError("decoder_start_token_id must be an id below vocab_size");
    try {
      activation(activation_name(feed_forward_proj), at::zeros({1}));
    } catch (const c10::Error& error) {
      throw ConfigError(std::string("feed_forward_proj: ").append(error.what_without_backtrace()));
    }
    check_labels(num_labels, problem_type);
  }

  void finish() {
    check();
    if (!scale_decoder_outputs) scale_decoder_outputs = tie_word_embeddings;
  }
};

/// The decoder's input for predicting `labels` [batch, seq].
inline Tensor shift_right(const Tensor& labels, const T5Config& config) {
  return previous_tokens(labels, config.decoder_start_token_id.value_or(*config.pad_token_id), *config.pad_token_id);
}

/// RMSNorm, initialized to the family's factor.
class T5LayerNormImpl : public Module {
 public:
  explicit T5LayerNormImpl(const T5Config& config)
      : weight(register_parameter("weight", torch::ones({config.d_model}))),
        eps(config.layer_norm_epsilon),
        factor(config.initializer_factor) {}

  Tensor forward(const Tensor& hidden_states) { return rms_norm(hidden_states, weight, eps); }

  void reset_parameters() override { init::constant_(weight, factor); }

  Tensor weight;
  double eps;
  double factor;
};

/// Feed-forward network.
class T5DenseActDenseImpl : public Module {
 public:
  explicit T5DenseActDenseImpl(const T5Config& config)
      : config(config),
        wi(linear(config.d_model, config.d_ff, /*bias=*/false)),
        wo(linear(config.d_ff, config.d_model, /*bias=*/false)),
        act(activation_name(config.feed_forward_proj)),
        dropout(nn::Dropout(config.dropout_rate)) {}

  Tensor forward(const Tensor& hidden_states) { return wo(dropout(activation(act, wi(hidden_states)))); }

  void reset_parameters() override {
    init::normal_(wi->weight, 0.0, config.initializer_factor / std::sqrt(static_cast<double>(config.d_model)));
    init::normal_(wo->weight, 0.0, config.initializer_factor / std::sqrt(static_cast<double>(config.d_ff)));
  }

  T5Config config;
  TP_COLWISE nn::Linear wi;
  TP_ROWWISE nn::Linear wo;
  std::string act;
  nn::Dropout dropout;
};

/// Gated feed-forward network.
class T5DenseGatedActDenseImpl : public Module {
 public:
  explicit T5DenseGatedActDenseImpl(const T5Config& config)
      : config(config),
        wi_0(linear(config.d_model, config.d_ff, /*bias=*/false)),
        wi_1(linear(config.d_model, config.d_ff, /*bias=*/false)),
        wo(linear(config.d_ff, config.d_model, /*bias=*/false)),
        act(activation_name(config.feed_forward_proj)),
        dropout(nn::Dropout(config.dropout_rate)) {}

  Tensor forward(const Tensor& hidden_states) {
    return wo(dropout(gated_activation(act, wi_0(hidden_states), wi_1(hidden_states))));
  }

  void reset_parameters() override {
    const double std = config.initializer_factor / std::sqrt(static_cast<double>(config.d_model));
    init::normal_(wi_0->weight, 0.0, std);
    init::normal_(wi_1->weight, 0.0, std);
    init::normal_(wo->weight, 0.0, config.initializer_factor / std::sqrt(static_cast<double>(config.d_ff)));
  }

  T5Config config;
  TP_COLWISE nn::Linear wi_0;
  TP_COLWISE nn::Linear wi_1;
  TP_ROWWISE nn::Linear wo;
  std::string act;
  nn::Dropout dropout;
};

class T5LayerFFImpl : public Module {
 public:
  explicit T5LayerFFImpl(const T5Config& config) {
    if (is_gated(config.feed_forward_proj))
      DenseReluDense = T5DenseGatedActDense(config);
    else
      DenseReluDense = T5DenseActDense(config);
    layer_norm = T5LayerNorm(config);
    dropout = nn::Dropout(config.dropout_rate);
  }

  Tensor forward(const Tensor& hidden_states) {
    return hidden_states + dropout(DenseReluDense(layer_norm(hidden_states)));
  }

  OneOf<T5DenseGatedActDense, T5DenseActDense> DenseReluDense{nullptr};
  T5LayerNorm layer_norm{nullptr};
  nn::Dropout dropout{nullptr};
};

/// Attention biases by distance between key and query, one table for all layers of a stack. It is an FSDP unit of its
/// own because it is read before the first layer, which holds it, and on stages without that layer.
class FSDP_UNIT T5RelativeAttentionBiasImpl : public Module {
 public:
  explicit T5RelativeAttentionBiasImpl(const T5Config& config, bool bidirectional)
      : weight(register_parameter("weight", torch::empty({config.relative_attention_num_buckets, config.num_heads}))),
        num_buckets(bidirectional ? config.relative_attention_num_buckets / 2 : config.relative_attention_num_buckets),
        max_distance(config.relative_attention_max_distance),
        bidirectional(bidirectional),
        std(config.initializer_factor / std::sqrt(static_cast<double>(config.d_model))) {}

  /// The table's row for keys at `distance` [seq, seq] after their query: near distances have one row each, far ones
  /// share logarithmic steps. With both directions, each has half of the rows.
  Tensor bucket(const Tensor& distance) {
    const int64_t exact = num_buckets / 2;
    const Tensor steps = bidirectional ? distance.abs() : distance.neg().clamp_min(0);
    const Tensor far = at::log(steps.to(at::kFloat) / exact) / std::log(static_cast<double>(max_distance) / exact);
    const Tensor far_row = (far * (num_buckets - exact)).to(at::kLong) + exact;
    const Tensor row = at::where(steps.lt(exact), steps, far_row.clamp_max(num_buckets - 1));
    return bidirectional ? row + distance.gt(0).to(at::kLong) * num_buckets : row;
  }

  /// The biases of each head for keys at `distances` [seq, seq] that are `visible` [batch or 1, 1, seq, seq], and the
  /// lowest value for others: [batch or 1, heads, seq, seq].
  Tensor forward(const Tensor& distances, const Tensor& visible) {
    const Tensor rows = at::embedding(weight, bucket(distances));
    const Tensor bias = rows.permute({2, 0, 1}).unsqueeze(0);
    return bias.masked_fill(visible.logical_not(), plain::lowest(bias.scalar_type())).contiguous();
  }

  void reset_parameters() override { init::normal_(weight, 0.0, std); }

  TP_SHARD(1) Tensor weight;  // [buckets, heads]
  int64_t num_buckets;        // buckets per direction
  int64_t max_distance;
  bool bidirectional;
  double std;
};

/// Attention without a scale: the initial weights include it.
class T5AttentionImpl : public Module {
 public:
  explicit T5AttentionImpl(const T5Config& config)
      : config(config),
        n_heads(config.num_heads),
        key_value_proj_dim(config.d_kv),
        q(linear(config.d_model, n_heads * key_value_proj_dim, /*bias=*/false)),
        k(linear(config.d_model, n_heads * key_value_proj_dim, /*bias=*/false)),
        v(linear(config.d_model, n_heads * key_value_proj_dim, /*bias=*/false)),
        o(linear(n_heads * key_value_proj_dim, config.d_model, /*bias=*/false)),
        dropout(nn::Dropout(config.dropout_rate)) {}

  /// `hidden_states` [batch, seq, hidden] attend to `states` [batch, other_seq, hidden].
  Tensor forward(const Tensor& hidden_states, const Tensor& states, const Tensor& mask) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1), other_seq = states.size(1);
    const Tensor query = q(hidden_states).view({batch, seq, n_heads, key_value_proj_dim}).transpose(1, 2);
    const Tensor key = k(states).view({batch, other_seq, n_heads, key_value_proj_dim}).transpose(1, 2);
    const Tensor value = v(states).view({batch, other_seq, n_heads, key_value_proj_dim}).transpose(1, 2);
    return o(attention(query, key, value, mask, /*scale=*/1.0, dropout));
  }

  void reset_parameters() override {
    const double factor = config.initializer_factor, model = static_cast<double>(config.d_model);
    const double head = static_cast<double>(config.d_kv), heads = static_cast<double>(config.num_heads);
    init::normal_(q->weight, 0.0, factor / std::sqrt(model * head));
    init::normal_(k->weight, 0.0, factor / std::sqrt(model));
    init::normal_(v->weight, 0.0, factor / std::sqrt(model));
    init::normal_(o->weight, 0.0, factor / std::sqrt(heads * head));
  }

  T5Config config;
  TP_LOCAL int64_t n_heads;
  int64_t key_value_proj_dim;
  TP_COLWISE nn::Linear q;
  TP_COLWISE nn::Linear k;
  TP_COLWISE nn::Linear v;
  TP_ROWWISE nn::Linear o;
  nn::Dropout dropout;  // on attention weights
};

/// Self-attention. The first layer of a stack holds the biases of all layers.
class T5SelfAttentionImpl : public T5AttentionImpl {
 public:
  explicit T5SelfAttentionImpl(const T5Config& config, bool bidirectional, bool has_relative_attention_bias)
      : T5AttentionImpl(config) {
    if (has_relative_attention_bias) relative_attention_bias = T5RelativeAttentionBias(config, bidirectional);
  }

  PP_ALL T5RelativeAttentionBias relative_attention_bias{nullptr};
};

class T5LayerSelfAttentionImpl : public Module {
 public:
  explicit T5LayerSelfAttentionImpl(const T5Config& config, bool bidirectional, bool has_relative_attention_bias)
      : SelfAttention(T5SelfAttention(config, bidirectional, has_relative_attention_bias)),
        layer_norm(T5LayerNorm(config)),
        dropout(nn::Dropout(config.dropout_rate)) {}

  Tensor forward(const Tensor& hidden_states, const Tensor& mask) {
    const Tensor normed = layer_norm(hidden_states);
    return hidden_states + dropout(SelfAttention(normed, normed, mask));
  }

  T5SelfAttention SelfAttention;
  T5LayerNorm layer_norm;
  nn::Dropout dropout;
};

/// Cross-attention from the decoder to the encoder's output.
class T5LayerCrossAttentionImpl : public Module {
 public:
  explicit T5LayerCrossAttentionImpl(const T5Config& config)
      : EncDecAttention(T5Attention(config)),
        layer_norm(T5LayerNorm(config)),
        dropout(nn::Dropout(config.dropout_rate)) {}

  Tensor forward(const Tensor& hidden_states, const Tensor& encoder_states, const Tensor& mask) {
    return hidden_states + dropout(EncDecAttention(layer_norm(hidden_states), encoder_states, mask));
  }

  T5Attention EncDecAttention;
  T5LayerNorm layer_norm;
  nn::Dropout dropout;
};

/// The parts of an encoder block, which checkpoints number.
class T5EncoderPartsImpl : public Module {
 public:
  explicit T5EncoderPartsImpl(const T5Config& config, bool has_relative_attention_bias)
      : self_attention(
            register_module("0", T5LayerSelfAttention(config, /*bidirectional=*/true, has_relative_attention_bias))),
        feed_forward(register_module("1", T5LayerFF(config))) {}

  T5LayerSelfAttention self_attention;
  T5LayerFF feed_forward;
};

class FSDP_UNIT T5EncoderBlockImpl : public Module {
 public:
  explicit T5EncoderBlockImpl(const T5Config& config, bool has_relative_attention_bias)
      : layer(T5EncoderParts(config, has_relative_attention_bias)) {}

  Tensor forward(const Tensor& hidden_states, const Tensor& mask) {
    return layer->feed_forward(layer->self_attention(hidden_states, mask));
  }

  T5EncoderParts layer;
};

class T5DecoderPartsImpl : public Module {
 public:
  explicit T5DecoderPartsImpl(const T5Config& config, bool has_relative_attention_bias)
      : self_attention(
            register_module("0", T5LayerSelfAttention(config, /*bidirectional=*/false, has_relative_attention_bias))),
        cross_attention(register_module("1", T5LayerCrossAttention(config))),
        feed_forward(register_module("2", T5LayerFF(config))) {}

  T5LayerSelfAttention self_attention;
  T5LayerCrossAttention cross_attention;
  T5LayerFF feed_forward;
};

class FSDP_UNIT T5DecoderBlockImpl : public Module {
 public:
  explicit T5DecoderBlockImpl(const T5Config& config, bool has_relative_attention_bias)
      : layer(T5DecoderParts(config, has_relative_attention_bias)) {}

  Tensor forward(const Tensor& hidden_states, const Tensor& mask, const Tensor& encoder_states,
                 const Tensor& encoder_mask) {
    const Tensor attended = layer->self_attention(hidden_states, mask);
    return layer->feed_forward(layer->cross_attention(attended, encoder_states, encoder_mask));
  }

  T5DecoderParts layer;
};

class T5EncoderImpl : public Module {
 public:
  explicit T5EncoderImpl(const T5Config& config)
      : block(ModuleListOf<T5EncoderBlock>()),
        final_layer_norm(T5LayerNorm(config)),
        dropout(nn::Dropout(config.dropout_rate)),
        final_dropout(nn::Dropout(config.dropout_rate)) {
    for (int64_t i = 0; i < config.num_layers; ++i)
      block->push_back(T5EncoderBlock(config, /*has_relative_attention_bias=*/i == 0));
  }

  /// The biases of self-attention over `ids`, of whose keys `looks_at` are visible.
  Tensor biases(const Tensor& ids, const AttentionMask& looks_at) {
    const Tensor visible = visible_keys(looks_at, ids.size(1), ids.device());
    return block[0]->layer->self_attention->SelfAttention->relative_attention_bias(key_distances(ids), visible);
  }
  /// Applies the final norm and dropout to the last block's output.
  Tensor finish(const Tensor& hidden_states) { return final_dropout(final_layer_norm(hidden_states)); }

  PP_SPLIT ModuleListOf<T5EncoderBlock> block;
  PP_LAST T5LayerNorm final_layer_norm;
  nn::Dropout dropout;  // on the first block's input
  nn::Dropout final_dropout;
};

class T5DecoderImpl : public Module {
 public:
  explicit T5DecoderImpl(const T5Config& config)
      : block(ModuleListOf<T5DecoderBlock>()),
        final_layer_norm(T5LayerNorm(config)),
        dropout(nn::Dropout(config.dropout_rate)),
        final_dropout(nn::Dropout(config.dropout_rate)) {
    for (int64_t i = 0; i < *config.num_decoder_layers; ++i)
      block->push_back(T5DecoderBlock(config, /*has_relative_attention_bias=*/i == 0));
  }

  /// The biases of self-attention over `ids`, of whose keys `looks_at` are visible.
  Tensor biases(const Tensor& ids, const AttentionMask& looks_at) {
    const Tensor visible = visible_keys(looks_at, ids.size(1), ids.device());
    return block[0]->layer->self_attention->SelfAttention->relative_attention_bias(key_distances(ids), visible);
  }
  /// Applies the final norm and dropout to the last block's output.
  Tensor finish(const Tensor& hidden_states) { return final_dropout(final_layer_norm(hidden_states)); }

  PP_SPLIT ModuleListOf<T5DecoderBlock> block;
  PP_LAST T5LayerNorm final_layer_norm;
  nn::Dropout dropout;  // on the first block's input
  nn::Dropout final_dropout;
};

/// Encoder and decoder with a shared token embedding.
class T5ModelImpl : public Module {
 public:
  explicit T5ModelImpl(const T5Config& config)
      : factor(config.initializer_factor),
        shared(embedding(config.vocab_size, config.d_model, std::nullopt)),
        encoder(T5Encoder(config)),
        decoder(T5Decoder(config)) {}

  /// The encoder's output for the batch's `input_ids`.
  Tensor encode(const Batch& batch) {
    const Tensor mask = encoder->biases(batch.input_ids, bidirectional_mask(batch));
    Tensor hidden_states = encoder->dropout(shared(batch.input_ids));
    for (auto& each : *encoder->block) hidden_states = each(hidden_states, mask);
    return encoder->finish(hidden_states);
  }

  /// The decoder's output for `decoder_input_ids` [batch, target_seq].
  Tensor forward(const Batch& batch, const Tensor& decoder_input_ids) {
    const Tensor encoder_states = encode(batch);
    const Tensor encoder_mask = key_mask(batch);
    const Tensor mask = decoder->biases(decoder_input_ids, causal_mask(batch.decoder_attention_mask, /*window=*/0));
    Tensor hidden_states = decoder->dropout(shared(decoder_input_ids));
    for (auto& each : *decoder->block) hidden_states = each(hidden_states, mask, encoder_states, encoder_mask);
    return decoder->finish(hidden_states);
  }

  void reset_parameters() override { init::normal_(shared->weight, 0.0, factor); }

  double factor;
  PP_ALL TP_VOCAB nn::Embedding shared;
  PP_FIRST T5Encoder encoder;
  PP_LAST T5Decoder decoder;
};

/// Text-to-text generation.
class MODEL_ENTRY("seq2seq") FSDP_UNIT T5ForConditionalGenerationImpl : public T5ModelImpl {
 public:
  explicit T5ForConditionalGenerationImpl(const T5Config& config)
      : T5ModelImpl(config), config(config), lm_head(linear(config.d_model, config.vocab_size, /*bias=*/false)) {}

  /// Input of the output projection.
  Tensor scaled(const Tensor& hidden_states) {
    if (!*config.scale_decoder_outputs) return hidden_states;
    return hidden_states * (1.0 / std::sqrt(static_cast<double>(config.d_model)));
  }

  /// Scores of the target tokens: [batch, target_seq, vocab].
  Outputs forward(const Batch& batch) {
    Tensor decoder_input_ids = batch.decoder_input_ids;
    if (!decoder_input_ids.defined()) decoder_input_ids = shift_right(batch.labels, config);
    Tensor hidden_states = T5ModelImpl::forward(batch, decoder_input_ids);
    return cross_entropy_outputs(lm_head(scaled(hidden_states)), batch, same_labels);
  }

  void reset_parameters() override {
    T5ModelImpl::reset_parameters();
    if (!config.tie_word_embeddings) init::normal_(lm_head->weight, 0.0, config.initializer_factor);
  }

  T5Config config;
  PP_LAST TP_VOCAB TIED_TO(shared->weight) nn::Linear lm_head;
};

/// The encoder without a decoder.
class T5EncoderModelImpl : public Module {
 public:
  explicit T5EncoderModelImpl(const T5Config& config)
      : factor(config.initializer_factor),
        shared(embedding(config.vocab_size, config.d_model, std::nullopt)),
        encoder(T5Encoder(config)) {}

  Tensor forward(const Batch& batch) {
    const Tensor mask = encoder->biases(batch.input_ids, bidirectional_mask(batch));
    Tensor hidden_states = encoder->dropout(shared(batch.input_ids));
    for (auto& each : *encoder->block) hidden_states = each(hidden_states, mask);
    return encoder->finish(hidden_states);
  }

  void reset_parameters() override { init::normal_(shared->weight, 0.0, factor); }

  double factor;
  PP_FIRST TP_VOCAB nn::Embedding shared;
  T5Encoder encoder;
};

/// Label scores of a sequence.
class T5ClassificationHeadImpl : public Module {
 public:
  explicit T5ClassificationHeadImpl(const T5Config& config)
      : Module(config.initializer_factor / std::sqrt(static_cast<double>(config.d_model))),
        dense(linear(config.d_model, config.d_model, /*bias=*/true)),
        dropout(nn::Dropout(config.classifier_dropout)),
        out_proj(linear(config.d_model, config.num_labels, /*bias=*/true)) {}

  Tensor forward(const Tensor& hidden_states) {
    const Tensor features = dense(dropout(hidden_states)).tanh();
    return out_proj(dropout(features));
  }

  nn::Linear dense;
  nn::Dropout dropout;
  nn::Linear out_proj;
};

/// Classifies sequences by the decoder's output at the last end token. The decoder reads the sequence too.
class MODEL_ENTRY("sequence-classification") FSDP_UNIT T5ForSequenceClassificationImpl : public Module {
 public:
  explicit T5ForSequenceClassificationImpl(const T5Config& config)
      : config(config), transformer(T5Model(config)), classification_head(T5ClassificationHead(config)) {}

  Outputs forward(const Batch& batch) {
    Tensor decoder_input_ids = batch.decoder_input_ids;
    if (!decoder_input_ids.defined()) decoder_input_ids = shift_right(batch.input_ids, config);
    Tensor hidden_states = transformer(batch, decoder_input_ids);
    const Tensor is_end = batch.input_ids.eq(config.eos_token_id).to(at::kLong);
    Tensor logits = classification_head(last_tokens(hidden_states, is_end, /*pad_token_id=*/0));
    return classification_outputs(logits, batch, config.problem_type);
  }

  T5Config config;
  T5Model transformer;
  PP_LAST T5ClassificationHead classification_head;
};

/// Classifies each token, using only the encoder.
class MODEL_ENTRY("token-classification") FSDP_UNIT T5ForTokenClassificationImpl : public Module {
 public:
  explicit T5ForTokenClassificationImpl(const T5Config& config)
      : Module(config.initializer_factor),
        transformer(T5EncoderModel(config)),
        dropout(nn::Dropout(config.classifier_dropout)),
        classifier(linear(config.d_model, config.num_labels, /*bias=*/true)) {}

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = transformer(batch);
    return cross_entropy_outputs(classifier(dropout(hidden_states)), batch, same_labels);
  }

  T5EncoderModel transformer;
  nn::Dropout dropout;
  PP_LAST nn::Linear classifier;
};

/// The encoder as a sentence encoder (Reimers & Gurevych, Sentence-BERT).
class MODEL_ENTRY("sentence-embedding", "T5EncoderModel") FSDP_UNIT T5ForSentenceEmbeddingImpl
    : public T5EncoderModelImpl {
 public:
  explicit T5ForSentenceEmbeddingImpl(const T5Config& config) : T5EncoderModelImpl(config) {}

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = T5EncoderModelImpl::forward(batch);
    return sentence_outputs(sentence_embeddings(hidden_states, batch), batch);
  }
};

}  // namespace modular::t5
