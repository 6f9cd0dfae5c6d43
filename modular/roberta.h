// RoBERTa (Liu et al., 2019), as in Hugging Face transformers: BERT with positions that start after the padding index,
// and other heads.
#pragma once

#include "modular/bert.h"

namespace modular::roberta {
MODULAR_FAMILY(Roberta, .members = {{"bert", "roberta"}, {"cls", "lm_head"}});

struct RobertaConfig : bert::BertConfig {
  int64_t vocab_size = 50265;
  std::optional<int64_t> pad_token_id = 1;

  void finish() {
    if (!pad_token_id) throw ConfigError("pad_token_id must be given: positions are counted from it");
    BertConfig::finish();
  }
};

struct RobertaEmbeddingsImpl : bert::BertEmbeddingsImpl {
  explicit RobertaEmbeddingsImpl(const RobertaConfig& config)
      : BertEmbeddingsImpl(config), padding_idx(*config.pad_token_id) {
    position_embeddings =
        remake(position_embeddings, embedding(config.max_position_embeddings, config.hidden_size, config.pad_token_id));
  }

  Tensor positions(const Batch& batch) {
    return batch.position_ids.defined() ? batch.position_ids : counted_position_ids(batch.input_ids, padding_idx);
  }

  int64_t padding_idx;  // padding id of tokens and of their positions
};

struct STANDS_FOR(bert::BertLMPredictionHeadImpl) RobertaLMHeadImpl : bert::BertLMPredictionHeadImpl {
  explicit RobertaLMHeadImpl(const RobertaConfig& config)
      : dense(linear(config.hidden_size, config.hidden_size, /*bias=*/true)),
        layer_norm(LayerNorm(config.hidden_size, config.layer_norm_eps)),
        BertLMPredictionHeadImpl(config) {}

  Tensor forward(const Tensor& hidden_states) { return decoder(layer_norm(at::gelu(dense(hidden_states)))); }

  void reset_parameters() override {
    init::normal_(dense->weight, 0.0, config.initializer_range);
    init::zeros_(dense->bias);
    BertLMPredictionHeadImpl::reset_parameters();
  }

  nn::Linear dense;
  LayerNorm layer_norm;

 private:
  using BertLMPredictionHeadImpl::transform;
};

struct MODEL_ENTRY("masked-lm") RobertaForMaskedLMImpl : bert::BertForMaskedLMImpl {
  explicit RobertaForMaskedLMImpl(const RobertaConfig& config) : BertForMaskedLMImpl(config) {
    cls = RobertaLMHead(config);
  }

  PP_LAST TIES(RobertaLMHeadImpl::decoder->weight, bert->embeddings->word_embeddings->weight) RobertaLMHead cls;
};

/// Label scores of a sequence, from its first token.
struct RobertaClassificationHeadImpl : bert::BertPoolerImpl {
  explicit RobertaClassificationHeadImpl(const RobertaConfig& config)
      : BertPoolerImpl(config),
        dropout(nn::Dropout(config.head_dropout())),
        out_proj(linear(config.hidden_size, config.num_labels, /*bias=*/true)) {}

  Tensor forward(const Tensor& hidden_states) {
    const Tensor first = dropout(first_tokens(hidden_states));
    return out_proj(dropout(dense(first).tanh()));
  }

  nn::Dropout dropout;
  nn::Linear out_proj;
};

struct MODEL_ENTRY("sequence-classification") RobertaForSequenceClassificationImpl
    : bert::BertForSequenceClassificationImpl {
  explicit RobertaForSequenceClassificationImpl(const RobertaConfig& config)
      : BertForSequenceClassificationImpl(config) {
    bert = remake(bert, bert::BertModel(config, /*add_pooling_layer=*/false));
    classifier = RobertaClassificationHead(config);
  }

  Tensor features(const Tensor& hidden_states, const Batch&) { return hidden_states; }

  PP_LAST RobertaClassificationHead classifier;

 private:
  using BertForSequenceClassificationImpl::dropout;
};

using RobertaForTokenClassification MODEL_ENTRY("token-classification") = bert::BertForTokenClassification;
using RobertaForSentenceEmbedding MODEL_ENTRY("sentence-embedding", "RobertaModel") = bert::BertForSentenceEmbedding;
using RobertaForSentencePairClassification MODEL_ENTRY("sentence-pair-classification") =
    bert::BertForSentencePairClassification;

}  // namespace modular::roberta
