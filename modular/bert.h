// BERT (Devlin et al., 2018), as in Hugging Face transformers: a bidirectional Transformer encoder.
#pragma once

#include <cmath>
#include <optional>
#include <string>

#include "modular/modular.h"

namespace modular::bert {
MODULAR_FAMILY(Bert);

struct BertConfig : Config {
  int64_t vocab_size = 30522;
  int64_t hidden_size = 768;
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;
  int64_t intermediate_size = 3072;
  std::string hidden_act = "gelu";
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  int64_t max_position_embeddings = 512;
  int64_t type_vocab_size = 2;
  double initializer_range = 0.02;
  double layer_norm_eps = 1e-12;
  std::optional<int64_t> pad_token_id = 0;
  std::optional<double> classifier_dropout;  // hidden_dropout_prob when not given
  bool is_decoder = false;
  bool tie_word_embeddings = true;
  int64_t num_labels = 2;                   // number of classifier labels
  std::optional<std::string> problem_type;  // selects the loss of sequence classifiers

  void finish() {
    if (num_attention_heads < 1 || hidden_size % num_attention_heads != 0)
      throw ConfigError("hidden_size must be a multiple of num_attention_heads");
    if (is_decoder) throw ConfigError("is_decoder is not supported: set it to false");
    check_labels(num_labels, problem_type);
  }

  /// Dropout probability before a classifier.
  double head_dropout() const { return classifier_dropout.value_or(hidden_dropout_prob); }
};

/// Sum of the embeddings of a token, its position and its segment, normed.
class BertEmbeddingsImpl : public Module {
 public:
  explicit BertEmbeddingsImpl(const BertConfig& config)
      : Module(config.initializer_range),
        word_embeddings(embedding(config.vocab_size, config.hidden_size, config.pad_token_id)),
        position_embeddings(embedding(config.max_position_embeddings, config.hidden_size, std::nullopt)),
        token_type_embeddings(embedding(config.type_vocab_size, config.hidden_size, std::nullopt)),
        LayerNorm(modular::LayerNorm(config.hidden_size, config.layer_norm_eps)),
        dropout(nn::Dropout(config.hidden_dropout_prob)) {}

  /// The row of position_embeddings for each token: [batch or 1, seq].
  Tensor positions(const Batch& batch) { return position_ids(batch); }

  Tensor forward(const Batch& batch) {
    Tensor token_types = batch.token_type_ids;
    if (!token_types.defined()) token_types = at::zeros_like(batch.input_ids);
    const Tensor embedded = word_embeddings(batch.input_ids) + token_type_embeddings(token_types);
    return dropout(LayerNorm(embedded + position_embeddings(positions(batch))));
  }

  TP_VOCAB nn::Embedding word_embeddings;
  nn::Embedding position_embeddings;
  nn::Embedding token_type_embeddings;
  modular::LayerNorm LayerNorm;
  nn::Dropout dropout;
};

class BertSelfAttentionImpl : public Module {
 public:
  explicit BertSelfAttentionImpl(const BertConfig& config)
      : Module(config.initializer_range),
        num_attention_heads(config.num_attention_heads),
        attention_head_size(config.hidden_size / config.num_attention_heads),
        scaling(1.0 / std::sqrt(static_cast<double>(attention_head_size))),
        query(linear(config.hidden_size, config.hidden_size, /*bias=*/true)),
        key(linear(config.hidden_size, config.hidden_size, /*bias=*/true)),
        value(linear(config.hidden_size, config.hidden_size, /*bias=*/true)),
        dropout(nn::Dropout(config.attention_probs_dropout_prob)) {}

  /// Views [batch, seq, hidden] as [batch, heads, seq, head_size].
  Tensor by_head(const Tensor& x) {
    return x.view({x.size(0), x.size(1), num_attention_heads, attention_head_size}).transpose(1, 2);
  }

  Tensor forward(const Tensor& hidden_states, const AttentionMask& mask) {
    const Tensor query_layer = by_head(query(hidden_states)), key_layer = by_head(key(hidden_states));
    return attention(query_layer, key_layer, by_head(value(hidden_states)), mask, scaling, dropout);
  }

  TP_LOCAL int64_t num_attention_heads;
  int64_t attention_head_size;
  double scaling;
  TP_COLWISE nn::Linear query;
  TP_COLWISE nn::Linear key;
  TP_COLWISE nn::Linear value;
  nn::Dropout dropout;  // on attention weights
};

/// Projects the attention output and adds the residual path, normed.
class BertSelfOutputImpl : public Module {
 public:
  explicit BertSelfOutputImpl(const BertConfig& config)
      : Module(config.initializer_range),
        dense(linear(config.hidden_size, config.hidden_size, /*bias=*/true)),
        LayerNorm(modular::LayerNorm(config.hidden_size, config.layer_norm_eps)),
        dropout(nn::Dropout(config.hidden_dropout_prob)) {}

  Tensor forward(const Tensor& hidden_states, const Tensor& input_tensor) {
    return LayerNorm(dropout(dense(hidden_states)) + input_tensor);
  }

  TP_ROWWISE nn::Linear dense;
  modular::LayerNorm LayerNorm;
  nn::Dropout dropout;
};

class BertAttentionImpl : public Module {
 public:
  explicit BertAttentionImpl(const BertConfig& config)
      : self(BertSelfAttention(config)), output(BertSelfOutput(config)) {}

  Tensor forward(const Tensor& hidden_states, const AttentionMask& mask) {
    return output(self(hidden_states, mask), hidden_states);
  }

  BertSelfAttention self;
  BertSelfOutput output;
};

class BertIntermediateImpl : public Module {
 public:
  explicit BertIntermediateImpl(const BertConfig& config)
      : Module(config.initializer_range),
        dense(linear(config.hidden_size, config.intermediate_size, /*bias=*/true)),
        hidden_act(config.hidden_act) {}

  Tensor forward(const Tensor& hidden_states) { return activation(hidden_act, dense(hidden_states)); }

  TP_COLWISE nn::Linear dense;
  std::string hidden_act;
};

/// Projects the feed-forward network's features and adds the residual path, normed.
class BertOutputImpl : public Module {
 public:
  explicit BertOutputImpl(const BertConfig& config)
      : Module(config.initializer_range),
        dense(linear(config.intermediate_size, config.hidden_size, /*bias=*/true)),
        LayerNorm(modular::LayerNorm(config.hidden_size, config.layer_norm_eps)),
        dropout(nn::Dropout(config.hidden_dropout_prob)) {}

  Tensor forward(const Tensor& hidden_states, const Tensor& input_tensor) {
    return LayerNorm(dropout(dense(hidden_states)) + input_tensor);
  }

  TP_ROWWISE nn::Linear dense;
  modular::LayerNorm LayerNorm;
  nn::Dropout dropout;
};

class FSDP_UNIT BertLayerImpl : public Module {
 public:
  explicit BertLayerImpl(const BertConfig& config)
      : attention(BertAttention(config)), intermediate(BertIntermediate(config)), output(BertOutput(config)) {}

  Tensor forward(const Tensor& hidden_states, const AttentionMask& mask) {
    const Tensor attention_output = attention(hidden_states, mask);
    return output(intermediate(attention_output), attention_output);
  }

  BertAttention attention;
  BertIntermediate intermediate;
  BertOutput output;
};

/// Holds the layers; BertModel runs them.
class BertEncoderImpl : public Module {
 public:
  explicit BertEncoderImpl(const BertConfig& config)
      : Module(config.initializer_range), layer(ModuleListOf<BertLayer>()) {
    for (int64_t i = 0; i < config.num_hidden_layers; ++i) layer->push_back(BertLayer(config));
  }

  PP_SPLIT ModuleListOf<BertLayer> layer;
};

/// Sequence feature from the first token.
class BertPoolerImpl : public Module {
 public:
  explicit BertPoolerImpl(const BertConfig& config)
      : Module(config.initializer_range), dense(linear(config.hidden_size, config.hidden_size, /*bias=*/true)) {}

  Tensor forward(const Tensor& hidden_states) { return dense(first_tokens(hidden_states)).tanh(); }

  nn::Linear dense;
};

/// Embeddings and layers, plus a pooler if a head needs one.
class BertModelImpl : public Module {
 public:
  BertModelImpl(const BertConfig& config, bool add_pooling_layer)
      : Module(config.initializer_range), embeddings(BertEmbeddings(config)), encoder(BertEncoder(config)) {
    if (add_pooling_layer) pooler = BertPooler(config);
  }

  Tensor forward(const Batch& batch) {
    Tensor hidden_states = embeddings(batch);
    const AttentionMask mask = bidirectional_mask(batch);
    for (auto& layer : *encoder->layer) hidden_states = layer(hidden_states, mask);
    return hidden_states;
  }

  PP_FIRST BertEmbeddings embeddings;
  BertEncoder encoder;
  PP_LAST BertPooler pooler{nullptr};
};

class BertPredictionHeadTransformImpl : public Module {
 public:
  explicit BertPredictionHeadTransformImpl(const BertConfig& config)
      : Module(config.initializer_range),
        dense(linear(config.hidden_size, config.hidden_size, /*bias=*/true)),
        LayerNorm(modular::LayerNorm(config.hidden_size, config.layer_norm_eps)),
        hidden_act(config.hidden_act) {}

  Tensor forward(const Tensor& hidden_states) { return LayerNorm(activation(hidden_act, dense(hidden_states))); }

  nn::Linear dense;
  modular::LayerNorm LayerNorm;
  std::string hidden_act;
};

class BertLMPredictionHeadImpl : public Module {
 public:
  explicit BertLMPredictionHeadImpl(const BertConfig& config)
      : config(config),
        transform(BertPredictionHeadTransform(config)),
        bias(register_parameter("bias", torch::zeros({config.vocab_size}))),
        decoder(linear(config.hidden_size, config.vocab_size, /*bias=*/true)) {}

  Tensor forward(const Tensor& hidden_states) { return decoder(transform(hidden_states)); }

  void reset_parameters() override {
    if (!config.tie_word_embeddings)
      init::normal_(decoder->weight, 0.0, config.initializer_range);  // otherwise the embedding initializes it
    init::zeros_(decoder->bias);
    init::zeros_(bias);
  }

  BertConfig config;
  BertPredictionHeadTransform transform;
  TP_SHARD(0) Tensor bias;  // [vocab], the decoder's bias if tied
  TP_VOCAB TIES(nn::LinearImpl::bias, bias) nn::Linear decoder;
};

class BertOnlyMLMHeadImpl : public Module {
 public:
  explicit BertOnlyMLMHeadImpl(const BertConfig& config) : predictions(BertLMPredictionHead(config)) {}

  Tensor forward(const Tensor& hidden_states) { return predictions(hidden_states); }

  BertLMPredictionHead predictions;
};

/// Predicts masked tokens.
class MODEL_ENTRY("masked-lm") FSDP_UNIT BertForMaskedLMImpl : public Module {
 public:
  explicit BertForMaskedLMImpl(const BertConfig& config)
      : Module(config.initializer_range),
        config(config),
        bert(BertModel(config, /*add_pooling_layer=*/false)),
        cls(BertOnlyMLMHead(config)) {}

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = bert(batch);
    return cross_entropy_outputs(cls(hidden_states), batch, same_labels);
  }

  BertConfig config;
  BertModel bert;
  PP_LAST TIES(BertOnlyMLMHeadImpl::predictions->decoder->weight,
               bert->embeddings->word_embeddings->weight) BertOnlyMLMHead cls;
};

/// Classifies sequences.
class MODEL_ENTRY("sequence-classification") FSDP_UNIT BertForSequenceClassificationImpl : public Module {
 public:
  explicit BertForSequenceClassificationImpl(const BertConfig& config)
      : Module(config.initializer_range),
        config(config),
        bert(BertModel(config, /*add_pooling_layer=*/true)),
        dropout(nn::Dropout(config.head_dropout())),
        classifier(linear(config.hidden_size, config.num_labels, /*bias=*/true)) {}

  /// Input of the classifier.
  Tensor features(const Tensor& hidden_states, const Batch&) { return dropout(bert->pooler(hidden_states)); }

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = bert(batch);
    return classification_outputs(classifier(features(hidden_states, batch)), batch, config.problem_type);
  }

  BertConfig config;
  BertModel bert;
  nn::Dropout dropout;
  PP_LAST nn::Linear classifier;
};

/// Classifies each token.
class MODEL_ENTRY("token-classification") FSDP_UNIT BertForTokenClassificationImpl
    : public BertForSequenceClassificationImpl {
 public:
  explicit BertForTokenClassificationImpl(const BertConfig& config) : BertForSequenceClassificationImpl(config) {
    bert = remake(bert, BertModel(config, /*add_pooling_layer=*/false));
  }

  Tensor features(const Tensor& hidden_states, const Batch&) { return dropout(hidden_states); }
};

/// The base model as a sentence encoder (Reimers & Gurevych, SBERT).
class MODEL_ENTRY("sentence-embedding", "BertModel") FSDP_UNIT BertForSentenceEmbeddingImpl : public BertModelImpl {
 public:
  explicit BertForSentenceEmbeddingImpl(const BertConfig& config) : BertModelImpl(config, /*add_pooling_layer=*/true) {}

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = BertModelImpl::forward(batch);
    return sentence_outputs(sentence_embeddings(hidden_states, batch), batch);
  }
};

/// Classifies pairs of texts by their embeddings (Reimers & Gurevych, SBERT).
class MODEL_ENTRY("sentence-pair-classification") FSDP_UNIT BertForSentencePairClassificationImpl
    : public BertModelImpl {
 public:
  explicit BertForSentencePairClassificationImpl(const BertConfig& config)
      : BertModelImpl(config, /*add_pooling_layer=*/true),
        config(config),
        classifier(linear(3 * config.hidden_size, config.num_labels, /*bias=*/true)) {}

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = BertModelImpl::forward(batch);
    Tensor logits = classifier(pair_features(sentence_embeddings(hidden_states, batch)));
    return classification_outputs(logits, batch, config.problem_type);
  }

  BertConfig config;
  PP_LAST nn::Linear classifier;
};

}  // namespace modular::bert
