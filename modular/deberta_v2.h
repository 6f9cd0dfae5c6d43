// DeBERTa v2 and v3 (He et al., 2021), as in Hugging Face transformers: BERT whose attention scores also compare
// content with embeddings of relative positions.
#pragma once

#include <algorithm>
#include <vector>

#include "modular/bert.h"

namespace modular::deberta_v2 {
MODULAR_FAMILY(DebertaV2, .title = "DeBERTa", .model_type = "deberta-v2",
               .members = {{"bert", "deberta"}, {"query", "query_proj"}, {"key", "key_proj"}, {"value", "value_proj"}});

struct DebertaV2Config : bert::BertConfig {
  int64_t vocab_size = 128100;
  int64_t hidden_size = 1536;
  int64_t num_hidden_layers = 24;
  int64_t num_attention_heads = 24;
  int64_t intermediate_size = 6144;
  int64_t type_vocab_size = 0;
  double layer_norm_eps = 1e-7;
  bool relative_attention = false;         // whether scores depend on relative positions
  std::vector<std::string> pos_att_type;   // the comparisons: c2p, content with position; p2c, position with content
  int64_t max_relative_positions = -1;     // max_position_embeddings when below 1
  int64_t position_buckets = -1;           // rows of relative positions per direction; one per position when below 1
  bool share_att_key = false;              // positions are projected like content
  std::string norm_rel_ebd = "none";       // or layer_norm: the norm of the embeddings of relative positions
  bool position_biased_input = true;       // whether tokens have embeddings of their absolute positions
  double pooler_dropout = 0.0;             // before the pooler
  std::string pooler_hidden_act = "gelu";  // after the pooler
  std::optional<double> cls_dropout;       // before the classifier of sequences; hidden_dropout_prob when not given
  bool legacy = true;
  int64_t conv_kernel_size = 0;
  std::optional<int64_t> attention_head_size, embedding_size, pooler_hidden_size;

  void finish() {
    if (num_attention_heads < 1 || hidden_size % num_attention_heads != 0)
      throw ConfigError("hidden_size must be a multiple of num_attention_heads");
    if (!attention_head_size) attention_head_size = hidden_size / num_attention_heads;
    if (!embedding_size) embedding_size = hidden_size;
    if (!pooler_hidden_size) pooler_hidden_size = hidden_size;
    if (*attention_head_size != hidden_size / num_attention_heads)
      throw ConfigError("attention_head_size must be hidden_size / num_attention_heads");
    if (*embedding_size != hidden_size || *pooler_hidden_size != hidden_size)
      throw ConfigError("embedding_size and pooler_hidden_size must be hidden_size");
    if (type_vocab_size < 0) throw ConfigError("type_vocab_size must not be negative");
    if (conv_kernel_size > 0)
      throw ConfigError("the convolution after the first layer is not supported: set conv_kernel_size to 0");
    if (!legacy) throw ConfigError("the masked token head without legacy is not supported: set legacy to true");
    for (const std::string& type : pos_att_type)
      if (type != "c2p" && type != "p2c") throw ConfigError("pos_att_type must have c2p, p2c or both");
    if (relative_attention && pos_att_type.empty())
      throw ConfigError("pos_att_type must have c2p, p2c or both if relative_attention is true");
    if (norm_rel_ebd != "none" && norm_rel_ebd != "layer_norm")
      throw ConfigError("norm_rel_ebd must be none or layer_norm");
    if (relative_attention && position_buckets > 0 && (position_buckets < 2 || farthest() - 1 <= position_buckets / 2))
      throw ConfigError("position_buckets must be at least 2, and its half less than max_relative_positions - 1");
    check_labels(num_labels, problem_type);
  }

  bool has_comparison(const std::string& type) const {
    return std::find(pos_att_type.begin(), pos_att_type.end(), type) != pos_att_type.end();
  }
  /// The first relative position that has the same embedding as all after it.
  int64_t farthest() const { return max_relative_positions < 1 ? max_position_embeddings : max_relative_positions; }
  /// Rows of the embeddings of relative positions per direction.
  int64_t span() const { return position_buckets > 0 ? position_buckets : farthest(); }
  double head_dropout() const { return cls_dropout.value_or(hidden_dropout_prob); }

 private:
  using BertConfig::classifier_dropout, BertConfig::is_decoder;
};

/// Sum of the embeddings of a token and, if the model has them, its position and its segment, normed.
struct DebertaV2EmbeddingsImpl : bert::BertEmbeddingsImpl {
  explicit DebertaV2EmbeddingsImpl(const DebertaV2Config& config)
      : BertEmbeddingsImpl(config),
        has_positions(config.position_biased_input),
        has_segments(config.type_vocab_size > 0) {
    remove(position_embeddings);
    remove(token_type_embeddings);
    if (config.position_biased_input)
      position_embeddings = embedding(config.max_position_embeddings, config.hidden_size, std::nullopt);
    if (config.type_vocab_size > 0)
      token_type_embeddings = embedding(config.type_vocab_size, config.hidden_size, std::nullopt);
  }

  Tensor forward(const Batch& batch) {
    Tensor embedded = word_embeddings(batch.input_ids);
    if (has_positions) embedded = embedded + position_embeddings(positions(batch));
    if (has_segments) {
      Tensor token_types = batch.token_type_ids;
      if (!token_types.defined()) token_types = at::zeros_like(batch.input_ids);
      embedded = embedded + token_type_embeddings(token_types);
    }
    return dropout(without_padding(LayerNorm(embedded), batch.attention_mask));
  }

  nn::Embedding position_embeddings{nullptr};
  nn::Embedding token_type_embeddings{nullptr};
  bool has_positions;
  bool has_segments;
};

/// Attention whose scores are sums of three products: of the query's and the key's content, of the query's content and
/// the key's relative position (c2p), and of the key's content and the query's relative position (p2c).
struct DebertaV2SelfAttentionImpl : bert::BertSelfAttentionImpl {
  explicit DebertaV2SelfAttentionImpl(const DebertaV2Config& config)
      : BertSelfAttentionImpl(config),
        relative_attention(config.relative_attention),
        has_c2p(config.has_comparison("c2p")),
        has_p2c(config.has_comparison("p2c")),
        share_att_key(config.share_att_key),
        pos_dropout(nn::Dropout(config.hidden_dropout_prob)) {
    scaling = 1.0 / std::sqrt(static_cast<double>(attention_head_size * (1 + has_c2p + has_p2c)));
    if (config.relative_attention && !config.share_att_key) {
      if (config.has_comparison("c2p")) pos_key_proj = linear(config.hidden_size, config.hidden_size, /*bias=*/true);
      if (config.has_comparison("p2c")) pos_query_proj = linear(config.hidden_size, config.hidden_size, /*bias=*/true);
    }
  }

  /// Views positions [batch or 1, rows, hidden] as [batch or 1, heads, head_size, rows].
  Tensor rows_by_head(const Tensor& x) {
    return x.view({x.size(0), x.size(1), num_attention_heads, attention_head_size}).permute({0, 2, 3, 1});
  }

  /// Embeddings of relative positions with dropout: [batch or 1, rows, hidden]. The original drops the same elements
  /// for each row of the batch.
  Tensor dropped(const Tensor& positions, int64_t batch) {
    const Tensor one = positions.unsqueeze(0);
    return pos_dropout->drops() ? pos_dropout(one.expand({batch, -1, -1})) : one;
  }

  /// `positions` [rows, hidden] are the embeddings of relative positions, `row` [1, 1, seq, seq] the one of each query
  /// and key, `mirrored` the one of each key and query, and `visible` [batch or 1, 1, seq, seq] whether a query sees a
  /// key.
  Tensor forward(const Tensor& hidden_states, const Tensor& positions, const Tensor& row, const Tensor& mirrored,
                 const Tensor& visible) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1);
    const Tensor query_layer = by_head(query(hidden_states)), key_layer = by_head(key(hidden_states));
    const Tensor value_layer = by_head(value(hidden_states));
    const double hidden = plain::lowest(hidden_states.scalar_type());
    if (!relative_attention) {
      const Tensor biases = at::zeros({1, 1, seq, seq}, hidden_states.options());
      return attention_with_biases(query_layer, key_layer, value_layer,
                                   biases.masked_fill(visible.logical_not(), hidden), scaling, dropout);
    }
    const Tensor embedded = dropped(positions, batch);
    Tensor scores;
    if (has_c2p) {
      const Tensor keys = rows_by_head(share_att_key ? key(embedded) : pos_key_proj(embedded));
      scores = query_layer.matmul(keys).gather(-1, row.expand({batch, num_attention_heads, seq, seq}));
    }
    if (has_p2c) {
      const Tensor queries = rows_by_head(share_att_key ? query(embedded) : pos_query_proj(embedded));
      const Tensor found =
          key_layer.matmul(queries).gather(-1, mirrored.expand({batch, num_attention_heads, seq, seq}));
      scores = scores.defined() ? scores + found.transpose(-1, -2) : found.transpose(-1, -2);
    }
    const Tensor biases = (scores * scaling).masked_fill(visible.logical_not(), hidden);
    return attention_with_biases(query_layer, key_layer, value_layer, biases, scaling, dropout);
  }

  bool relative_attention;
  bool has_c2p;
  bool has_p2c;
  bool share_att_key;
  TP_COLWISE nn::Linear pos_key_proj{nullptr};
  TP_COLWISE nn::Linear pos_query_proj{nullptr};
  nn::Dropout pos_dropout;
};

struct DebertaV2AttentionImpl : bert::BertAttentionImpl {
  Tensor forward(const Tensor& hidden_states, const Tensor& positions, const Tensor& row, const Tensor& mirrored,
                 const Tensor& visible) {
    return output(self(hidden_states, positions, row, mirrored, visible), hidden_states);
  }

  DebertaV2SelfAttention self;
};

struct DebertaV2LayerImpl : bert::BertLayerImpl {
  Tensor forward(const Tensor& hidden_states, const Tensor& positions, const Tensor& row, const Tensor& mirrored,
                 const Tensor& visible) {
    const Tensor attention_output = attention(hidden_states, positions, row, mirrored, visible);
    return output(intermediate(attention_output), attention_output);
  }

  DebertaV2Attention attention;
};

struct DebertaV2EncoderImpl : bert::BertEncoderImpl {
  explicit DebertaV2EncoderImpl(const DebertaV2Config& config)
      : BertEncoderImpl(config),
        has_norm(config.norm_rel_ebd == "layer_norm"),
        span(config.span()),
        farthest(config.farthest()),
        has_buckets(config.position_buckets > 0) {
    if (config.relative_attention) rel_embeddings = embedding(2 * span, config.hidden_size, std::nullopt);
    if (config.norm_rel_ebd == "layer_norm") LayerNorm = modular::LayerNorm(config.hidden_size, config.layer_norm_eps);
  }

  /// The embeddings of relative positions: [rows, hidden].
  Tensor positions() { return has_norm ? LayerNorm(rel_embeddings->weight) : rel_embeddings->weight; }

  /// The row of each relative position in `distance`, before the rows of keys after their query are added: near
  /// positions have one row each, far ones share logarithmic steps.
  Tensor bucket(const Tensor& distance) {
    if (!has_buckets) return distance;
    const int64_t exact = span / 2;
    const Tensor steps = distance.abs(),
                 limit = at::scalar_tensor(static_cast<double>(farthest - 1) / exact, at::kFloat);
    const Tensor far = at::log(steps.clamp_min(exact).to(at::kFloat) / exact) / at::log(limit);
    const Tensor far_row = (at::ceil(far * (exact - 1)) + exact).to(at::kLong);
    return at::where(steps.le(exact), distance, far_row * distance.sign());
  }

  ModuleListOf<DebertaV2Layer> layer;
  PP_ALL nn::Embedding rel_embeddings{nullptr};
  PP_ALL modular::LayerNorm LayerNorm{nullptr};
  bool has_norm;
  int64_t span;
  int64_t farthest;
  bool has_buckets;
};

/// Embeddings and layers.
struct DebertaV2ModelImpl : bert::BertModelImpl {
  explicit DebertaV2ModelImpl(const DebertaV2Config& config)
      : BertModelImpl(config, /*add_pooling_layer=*/false), relative_attention(config.relative_attention) {}

  /// Whether a query sees a key: neither may be padding. [batch or 1, 1, seq, seq]
  Tensor visible_pairs(const Batch& batch) {
    const int64_t seq = batch.input_ids.size(1);
    const Tensor visible = visible_keys(bidirectional_mask(batch), seq, batch.input_ids.device());
    if (!batch.attention_mask.defined()) return visible;
    return visible.logical_and(batch.attention_mask.to(at::kBool).unsqueeze(1).unsqueeze(-1));
  }

  Tensor forward(const Batch& batch) {
    Tensor hidden_states = embeddings(batch);
    const int64_t seq = batch.input_ids.size(1);
    const Tensor visible = visible_pairs(batch);
    Tensor positions, row, mirrored;
    if (relative_attention) {
      const Tensor bucket = encoder->bucket(key_distances(batch.input_ids).neg()).view({1, 1, seq, seq});
      positions = encoder->positions();
      row = (bucket + encoder->span).clamp(0, 2 * encoder->span - 1);
      mirrored = (encoder->span - bucket).clamp(0, 2 * encoder->span - 1);
    }
    for (auto& layer : *encoder->layer) hidden_states = layer(hidden_states, positions, row, mirrored, visible);
    return hidden_states;
  }

  DebertaV2Encoder encoder;
  bool relative_attention;

 private:
  using BertModelImpl::pooler;
};

struct MODEL_ENTRY("masked-lm") DebertaV2ForMaskedLMImpl : bert::BertForMaskedLMImpl {
  explicit DebertaV2ForMaskedLMImpl(const DebertaV2Config& config) : BertForMaskedLMImpl(config) {
    bert = DebertaV2Model(config);
  }

  DebertaV2Model bert;
};

/// Sequence feature from the first token.
class DebertaV2ContextPoolerImpl : public Module {
 public:
  explicit DebertaV2ContextPoolerImpl(const DebertaV2Config& config)
      : Module(config.initializer_range),
        dense(linear(config.hidden_size, config.hidden_size, /*bias=*/true)),
        dropout(nn::Dropout(config.pooler_dropout)),
        hidden_act(config.pooler_hidden_act) {}

  Tensor forward(const Tensor& hidden_states) {
    return activation(hidden_act, dense(dropout(first_tokens(hidden_states))));
  }

  nn::Linear dense;
  nn::Dropout dropout;
  std::string hidden_act;
};

struct MODEL_ENTRY("sequence-classification") DebertaV2ForSequenceClassificationImpl
    : bert::BertForSequenceClassificationImpl {
  explicit DebertaV2ForSequenceClassificationImpl(const DebertaV2Config& config)
      : BertForSequenceClassificationImpl(config), pooler(DebertaV2ContextPooler(config)) {
    bert = DebertaV2Model(config);
  }

  Tensor features(const Tensor& hidden_states, const Batch&) { return dropout(pooler(hidden_states)); }

  DebertaV2Model bert;
  PP_LAST DebertaV2ContextPooler pooler;
};

struct MODEL_ENTRY("token-classification") DebertaV2ForTokenClassificationImpl : bert::BertForTokenClassificationImpl {
  explicit DebertaV2ForTokenClassificationImpl(const DebertaV2Config& config) : BertForTokenClassificationImpl(config) {
    bert = DebertaV2Model(config);
    dropout = remake(dropout, nn::Dropout(config.hidden_dropout_prob));
  }

  DebertaV2Model bert;
};

/// The base model as a sentence encoder (Reimers & Gurevych, SBERT).
struct MODEL_ENTRY("sentence-embedding", "DebertaV2Model") FSDP_UNIT DebertaV2ForSentenceEmbeddingImpl
    : DebertaV2ModelImpl {
  Outputs forward(const Batch& batch) {
    Tensor hidden_states = DebertaV2ModelImpl::forward(batch);
    return sentence_outputs(sentence_embeddings(hidden_states, batch), batch);
  }
};

}  // namespace modular::deberta_v2
