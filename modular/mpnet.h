// MPNet (Song et al., 2020), as in Hugging Face transformers: RoBERTa without segments, with a distance bias on
// attention scores.
#pragma once

#include "modular/roberta.h"

namespace modular::mpnet {
MODULAR_FAMILY(MPNet,
               .members = {{"roberta", "mpnet"}, {"query", "q"}, {"key", "k"}, {"value", "v"}, {"self", "attn"}});

struct MPNetConfig : roberta::RobertaConfig {
  int64_t vocab_size = 30527;
  int64_t relative_attention_num_buckets = 32;

  void finish() {
    if (num_attention_heads < 1 || hidden_size % num_attention_heads != 0)
      throw ConfigError("hidden_size must be a multiple of num_attention_heads");
    if (relative_attention_num_buckets < 32) throw ConfigError("relative_attention_num_buckets must be at least 32");
    check_labels(num_labels, problem_type);
  }

  double head_dropout() const { return hidden_dropout_prob; }

 private:
  using RobertaConfig::classifier_dropout, RobertaConfig::is_decoder, RobertaConfig::type_vocab_size;
};

struct MPNetEmbeddingsImpl : roberta::RobertaEmbeddingsImpl {
  explicit MPNetEmbeddingsImpl(const MPNetConfig& config) : RobertaEmbeddingsImpl(config) {
    word_embeddings = remake(word_embeddings, embedding(config.vocab_size, config.hidden_size, /*padding_idx=*/1));
    position_embeddings =
        remake(position_embeddings, embedding(config.max_position_embeddings, config.hidden_size, /*padding_idx=*/1));
    padding_idx = 1;
  }

  Tensor forward(const Batch& batch) {
    return dropout(LayerNorm(word_embeddings(batch.input_ids) + position_embeddings(positions(batch))));
  }

 private:
  using RobertaEmbeddingsImpl::token_type_embeddings;
};

struct MPNetSelfAttentionImpl : bert::BertSelfAttentionImpl {
  explicit MPNetSelfAttentionImpl(const MPNetConfig& config)
      : BertSelfAttentionImpl(config), o(linear(config.hidden_size, config.hidden_size, /*bias=*/true)) {}

  /// `biases` [batch or 1, heads, seq, seq] are added to the scores.
  Tensor forward(const Tensor& hidden_states, const Tensor& biases) {
    const Tensor query_layer = by_head(query(hidden_states)), key_layer = by_head(key(hidden_states));
    return o(attention(query_layer, key_layer, by_head(value(hidden_states)), biases, scaling, dropout));
  }

  TP_ROWWISE nn::Linear o;
};

struct MPNetAttentionImpl : bert::BertAttentionImpl {
  explicit MPNetAttentionImpl(const MPNetConfig& config)
      : BertAttentionImpl(config),
        LayerNorm(modular::LayerNorm(config.hidden_size, config.layer_norm_eps)),
        dropout(nn::Dropout(config.hidden_dropout_prob)) {}

  Tensor forward(const Tensor& hidden_states, const Tensor& biases) {
    return LayerNorm(dropout(self(hidden_states, biases)) + hidden_states);
  }

  MPNetSelfAttention self;
  modular::LayerNorm LayerNorm;
  nn::Dropout dropout;

 private:
  using BertAttentionImpl::output;
};

/// The row of relative_attention_bias for keys at `distance` [seq, seq] after their query: half of the rows for each
/// direction, one row per near distance, logarithmic steps for far ones (Raffel et al., T5).
inline Tensor relative_position_bucket(const Tensor& distance) {
  constexpr int64_t buckets = 16, exact = 8, farthest = 128;
  const Tensor far = at::log(distance.abs().to(at::kFloat) / exact) / std::log(static_cast<double>(farthest) / exact);
  const Tensor step = (far * (buckets - exact)).to(at::kLong) + exact;
  const Tensor row = at::where(distance.abs().lt(exact), distance.abs(), step.clamp_max(buckets - 1));
  return row + distance.gt(0).to(at::kLong) * buckets;
}

struct MPNetLayerImpl : bert::BertLayerImpl {
  Tensor forward(const Tensor& hidden_states, const Tensor& biases) {
    const Tensor attention_output = attention(hidden_states, biases);
    return output(intermediate(attention_output), attention_output);
  }

  MPNetAttention attention;
};

struct MPNetEncoderImpl : bert::BertEncoderImpl {
  explicit MPNetEncoderImpl(const MPNetConfig& config)
      : BertEncoderImpl(config),
        relative_attention_bias(
            embedding(config.relative_attention_num_buckets, config.num_attention_heads, std::nullopt)) {}

  ModuleListOf<MPNetLayer> layer;
  PP_ALL TP_SHARD(1) nn::Embedding relative_attention_bias;
};

struct MPNetModelImpl : bert::BertModelImpl {
  /// Biases added to the scores of each head: [batch or 1, heads, seq, seq], minus infinity for masked keys.
  Tensor attention_biases(const Batch& batch) {
    const Tensor& ids = batch.input_ids;
    const Tensor bucket = relative_position_bucket(key_distances(ids));
    const Tensor bias = encoder->relative_attention_bias(bucket).permute({2, 0, 1}).unsqueeze(0);
    const Tensor visible = visible_keys(bidirectional_mask(batch), ids.size(1), ids.device());
    return bias.masked_fill(visible.logical_not(), -std::numeric_limits<float>::infinity()).contiguous();
  }

  Tensor forward(const Batch& batch) {
    Tensor hidden_states = embeddings(batch);
    const Tensor biases = attention_biases(batch);
    for (auto& layer : *encoder->layer) hidden_states = layer(hidden_states, biases);
    return hidden_states;
  }

  MPNetEncoder encoder;
};

using MPNetForMaskedLM MODEL_ENTRY("masked-lm") = roberta::RobertaForMaskedLM;
using MPNetForSequenceClassification MODEL_ENTRY("sequence-classification") = roberta::RobertaForSequenceClassification;
using MPNetForTokenClassification MODEL_ENTRY("token-classification") = roberta::RobertaForTokenClassification;

struct MODEL_ENTRY("sentence-embedding", "MPNetModel") FSDP_UNIT MPNetForSentenceEmbeddingImpl : MPNetModelImpl {
  explicit MPNetForSentenceEmbeddingImpl(const MPNetConfig& config)
      : MPNetModelImpl(config, /*add_pooling_layer=*/true) {}

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = MPNetModelImpl::forward(batch);
    return sentence_outputs(sentence_embeddings(hidden_states, batch), batch);
  }
};

struct MODEL_ENTRY("sentence-pair-classification") FSDP_UNIT MPNetForSentencePairClassificationImpl : MPNetModelImpl {
  explicit MPNetForSentencePairClassificationImpl(const MPNetConfig& config)
      : MPNetModelImpl(config, /*add_pooling_layer=*/true),
        config(config),
        classifier(linear(3 * config.hidden_size, config.num_labels, /*bias=*/true)) {}

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = MPNetModelImpl::forward(batch);
    Tensor logits = classifier(pair_features(sentence_embeddings(hidden_states, batch)));
    return classification_outputs(logits, batch, config.problem_type);
  }

  MPNetConfig config;
  PP_LAST nn::Linear classifier;
};

}  // namespace modular::mpnet
