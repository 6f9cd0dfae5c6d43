// DistilBERT (Sanh et al., 2019), as in Hugging Face transformers: BERT without segments and pooler, whose layers name
// their parts in another way.
#pragma once

#include "modular/bert.h"

namespace modular::distilbert {
MODULAR_FAMILY(DistilBert, .members = {{"bert", "distilbert"},
                                       {"encoder", "transformer"},
                                       {"query", "q_lin"},
                                       {"key", "k_lin"},
                                       {"value", "v_lin"},
                                       {"BertConfig::hidden_size", "dim"},
                                       {"BertConfig::num_hidden_layers", "n_layers"},
                                       {"BertConfig::num_attention_heads", "n_heads"},
                                       {"BertConfig::intermediate_size", "hidden_dim"},
                                       {"BertConfig::hidden_act", "activation"},
                                       {"BertConfig::hidden_dropout_prob", "dropout"},
                                       {"BertConfig::attention_probs_dropout_prob", "attention_dropout"}});

struct DistilBertConfig : bert::BertConfig {
  int64_t num_hidden_layers = 6;
  static constexpr double layer_norm_eps = 1e-12;
  double seq_classif_dropout = 0.2;   // before the classifier of sequences
  bool sinusoidal_pos_embds = false;  // whether position embeddings start as sines and cosines

  void finish() {
    if (hidden_size % num_attention_heads != 0) throw ConfigError("dim must be a multiple of n_heads");
    check_labels(num_labels, problem_type);
  }

  double head_dropout() const { return seq_classif_dropout; }

 private:
  using BertConfig::classifier_dropout, BertConfig::is_decoder, BertConfig::type_vocab_size;
};

/// Sines and cosines of positions, by turns, at wavelengths from 2 pi to 20000 pi (Vaswani et al.): [positions, dim].
inline Tensor sinusoids(int64_t positions, int64_t dim) {
  const auto feature = at::arange(dim, at::kDouble);
  const Tensor frequency = at::exp(at::floor(feature / 2) * (-2.0 * std::log(10000.0) / static_cast<double>(dim)));
  const Tensor angle = at::arange(positions, at::kDouble).unsqueeze(1) * frequency;
  return at::where(feature.remainder(2).eq(0), angle.sin(), angle.cos());
}

/// Sum of the embeddings of a token and its position, normed.
struct DistilBertEmbeddingsImpl : bert::BertEmbeddingsImpl {
  explicit DistilBertEmbeddingsImpl(const DistilBertConfig& config)
      : BertEmbeddingsImpl(config), is_sinusoidal(config.sinusoidal_pos_embds) {}

  Tensor forward(const Batch& batch) {
    return dropout(LayerNorm(word_embeddings(batch.input_ids) + position_embeddings(positions(batch))));
  }

  void reset_parameters() override {
    BertEmbeddingsImpl::reset_parameters();
    if (is_sinusoidal)
      init::fill(position_embeddings->weight, [](Tensor& full) { full.copy_(sinusoids(full.size(0), full.size(1))); });
  }

  bool is_sinusoidal;

 private:
  using BertEmbeddingsImpl::token_type_embeddings;
};

struct DistilBertSelfAttentionImpl : bert::BertSelfAttentionImpl {
  explicit DistilBertSelfAttentionImpl(const DistilBertConfig& config)
      : BertSelfAttentionImpl(config), out_lin(linear(config.hidden_size, config.hidden_size, /*bias=*/true)) {}

  Tensor forward(const Tensor& hidden_states, const AttentionMask& mask) {
    const Tensor query_layer = by_head(query(hidden_states)), key_layer = by_head(key(hidden_states));
    return out_lin(attention(query_layer, key_layer, by_head(value(hidden_states)), mask, scaling, dropout));
  }

  TP_ROWWISE nn::Linear out_lin;
};

/// Feed-forward network.
class DistilBertFFNImpl : public Module {
 public:
  explicit DistilBertFFNImpl(const DistilBertConfig& config)
      : Module(config.initializer_range),
        dropout(nn::Dropout(config.hidden_dropout_prob)),
        lin1(linear(config.hidden_size, config.intermediate_size, /*bias=*/true)),
        lin2(linear(config.intermediate_size, config.hidden_size, /*bias=*/true)),
        hidden_act(config.hidden_act) {}

  Tensor forward(const Tensor& x) { return dropout(lin2(activation(hidden_act, lin1(x)))); }

  nn::Dropout dropout;
  TP_COLWISE nn::Linear lin1;
  TP_ROWWISE nn::Linear lin2;
  std::string hidden_act;
};

/// Attention and feed-forward network, each with a residual path and then a norm.
class STANDS_FOR(bert::BertLayer) FSDP_UNIT DistilBertTransformerBlockImpl : public Module {
 public:
  explicit DistilBertTransformerBlockImpl(const DistilBertConfig& config)
      : attention(DistilBertSelfAttention(config)),
        sa_layer_norm(LayerNorm(config.hidden_size, config.layer_norm_eps)),
        ffn(DistilBertFFN(config)),
        output_layer_norm(LayerNorm(config.hidden_size, config.layer_norm_eps)) {}

  Tensor forward(const Tensor& hidden_states, const AttentionMask& mask) {
    const Tensor attended = sa_layer_norm(attention(hidden_states, mask) + hidden_states);
    return output_layer_norm(ffn(attended) + attended);
  }

  DistilBertSelfAttention attention;
  LayerNorm sa_layer_norm;
  DistilBertFFN ffn;
  LayerNorm output_layer_norm;
};

/// Embeddings and layers.
struct DistilBertModelImpl : bert::BertModelImpl {
  explicit DistilBertModelImpl(const DistilBertConfig& config) : BertModelImpl(config, /*add_pooling_layer=*/false) {}

 private:
  using BertModelImpl::pooler;
};

/// Predicts masked tokens.
struct MODEL_ENTRY("masked-lm") DistilBertForMaskedLMImpl : bert::BertForMaskedLMImpl {
  explicit DistilBertForMaskedLMImpl(const DistilBertConfig& config)
      : BertForMaskedLMImpl(config),
        vocab_transform(linear(config.hidden_size, config.hidden_size, /*bias=*/true)),
        vocab_layer_norm(LayerNorm(config.hidden_size, config.layer_norm_eps)),
        vocab_projector(linear(config.hidden_size, config.vocab_size, /*bias=*/true)) {
    bert = DistilBertModel(config);
  }

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = bert(batch);
    const Tensor features = vocab_layer_norm(activation(config.hidden_act, vocab_transform(hidden_states)));
    return cross_entropy_outputs(vocab_projector(features), batch, same_labels);
  }

  DistilBertConfig config;
  DistilBertModel bert;
  PP_LAST nn::Linear vocab_transform;
  PP_LAST LayerNorm vocab_layer_norm;
  PP_LAST TP_VOCAB TIED_TO(bert->embeddings->word_embeddings->weight) nn::Linear vocab_projector;

 private:
  using BertForMaskedLMImpl::cls;
};

struct MODEL_ENTRY("sequence-classification") DistilBertForSequenceClassificationImpl
    : bert::BertForSequenceClassificationImpl {
  explicit DistilBertForSequenceClassificationImpl(const DistilBertConfig& config)
      : BertForSequenceClassificationImpl(config),
        pre_classifier(linear(config.hidden_size, config.hidden_size, /*bias=*/true)) {
    bert = DistilBertModel(config);
  }

  Tensor features(const Tensor& hidden_states, const Batch&) {
    return dropout(at::relu(pre_classifier(first_tokens(hidden_states))));
  }

  DistilBertModel bert;
  PP_LAST nn::Linear pre_classifier;
};

struct MODEL_ENTRY("token-classification") DistilBertForTokenClassificationImpl : bert::BertForTokenClassificationImpl {
  explicit DistilBertForTokenClassificationImpl(const DistilBertConfig& config)
      : BertForTokenClassificationImpl(config) {
    bert = DistilBertModel(config);
    dropout = remake(dropout, nn::Dropout(config.hidden_dropout_prob));
  }

  DistilBertModel bert;
};

/// The base model as a sentence encoder (Reimers & Gurevych, SBERT).
struct MODEL_ENTRY("sentence-embedding", "DistilBertModel") FSDP_UNIT DistilBertForSentenceEmbeddingImpl
    : DistilBertModelImpl {
  Outputs forward(const Batch& batch) {
    Tensor hidden_states = DistilBertModelImpl::forward(batch);
    return sentence_outputs(sentence_embeddings(hidden_states, batch), batch);
  }
};

/// Classifies pairs of texts by their embeddings (Reimers & Gurevych, SBERT).
struct MODEL_ENTRY("sentence-pair-classification") FSDP_UNIT DistilBertForSentencePairClassificationImpl
    : DistilBertModelImpl {
  explicit DistilBertForSentencePairClassificationImpl(const DistilBertConfig& config)
      : DistilBertModelImpl(config),
        config(config),
        classifier(linear(3 * config.hidden_size, config.num_labels, /*bias=*/true)) {}

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = DistilBertModelImpl::forward(batch);
    Tensor logits = classifier(pair_features(sentence_embeddings(hidden_states, batch)));
    return classification_outputs(logits, batch, config.problem_type);
  }

  DistilBertConfig config;
  PP_LAST nn::Linear classifier;
};

}  // namespace modular::distilbert
