// A small encoder and, beside it, a tower over images: masks in both directions, losses of rows that are compared.
#pragma once

#include <cmath>
#include <optional>
#include <string>

#include "modular/modular.h"

namespace modular::encoder {
MODULAR_FAMILY(Encoder);

struct EncoderConfig : Config {
  int64_t vocab_size = 30000;
  int64_t hidden_size = 256;
  int64_t intermediate_size = 1024;
  int64_t num_hidden_layers = 4;
  int64_t num_attention_heads = 4;
  int64_t max_position_embeddings = 512;
  int64_t local_attention = 128;
  int64_t num_channels = 3;
  int64_t image_size = 224;
  int64_t patch_size = 32;
  int64_t image_token_id = 4;
  std::string hidden_act = "gelu";
  double initializer_range = 0.02;
  double layer_norm_eps = 1e-12;
  bool tie_word_embeddings = true;
  int64_t num_labels = 3;                   // of how two texts relate
  std::optional<std::string> problem_type;  // of what their labels are
  LayerRopeParameters rope_parameters;

  void finish() {
    if (hidden_size % num_attention_heads != 0)
      throw ConfigError("hidden_size must be a multiple of num_attention_heads");
    check_labels(num_labels, problem_type);
  }
};

class EncoderLayerImpl : public Module {
 public:
  explicit EncoderLayerImpl(const EncoderConfig& config)
      : config(config),
        num_attention_heads(config.num_attention_heads),
        head_dim(config.hidden_size / config.num_attention_heads),
        query(register_module("query", linear(config.hidden_size, num_attention_heads * head_dim, /*bias=*/true))),
        key(register_module("key", linear(config.hidden_size, num_attention_heads * head_dim, /*bias=*/true))),
        value(register_module("value", linear(config.hidden_size, num_attention_heads * head_dim, /*bias=*/true))),
        output(register_module("output", linear(config.hidden_size, config.hidden_size, /*bias=*/true))),
        fc(register_module("fc", TransposedLinear(config.hidden_size, config.intermediate_size))),
        proj(register_module("proj", TransposedLinear(config.intermediate_size, config.hidden_size))),
        norm1(register_module("norm1", LayerNorm(config.hidden_size, config.layer_norm_eps))),
        norm2(register_module("norm2", LayerNorm(config.hidden_size, config.layer_norm_eps, /*has_bias=*/false))),
        attention_dropout(register_module("attention_dropout", nn::Dropout(0.1))),
        hidden_dropout(register_module("hidden_dropout", nn::Dropout(0.1))) {}

  Tensor forward(const Tensor& hidden_states, const AttentionMask& mask) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1);
    const Tensor tokens = hidden_states.view({batch, seq, config.hidden_size});
    const Tensor q = query(tokens).view({batch, seq, num_attention_heads, head_dim}).transpose(1, 2);
    const Tensor k = key(tokens).view({batch, seq, num_attention_heads, head_dim}).transpose(1, 2);
    const Tensor v = value(tokens).view({batch, seq, num_attention_heads, head_dim}).transpose(1, 2);
    const double scaling = 1.0 / std::sqrt(static_cast<double>(head_dim));
    const Tensor mixed = output(attention(q, k, v, mask, scaling, attention_dropout));
    const Tensor attended = norm1(hidden_states + hidden_dropout(mixed));
    return norm2(attended + proj(activation(config.hidden_act, fc(attended))));
  }

  void reset_parameters() override {
    init::linear_and_embedding_(*this, config.initializer_range);
    init::truncated_normal_(query->weight, config.initializer_range, /*cutoff=*/2.0);
    init::fan_in_normal_(output->weight);
  }

  EncoderConfig config;
  TP_LOCAL int64_t num_attention_heads;
  int64_t head_dim;
  TP_COLWISE nn::Linear query;
  TP_COLWISE nn::Linear key;
  TP_COLWISE nn::Linear value;
  TP_ROWWISE nn::Linear output;
  TP_COLWISE TransposedLinear fc;
  TP_ROWWISE TransposedLinear proj;
  LayerNorm norm1;
  LayerNorm norm2;
  nn::Dropout attention_dropout;
  nn::Dropout hidden_dropout;
};
TORCH_MODULE(EncoderLayer);

/// Embeddings of tokens, with the features of images in the place of their placeholders.
class EncoderEmbeddingsImpl : public Module {
 public:
  explicit EncoderEmbeddingsImpl(const EncoderConfig& config)
      : config(config),
        word_embeddings(
            register_module("word_embeddings", embedding(config.vocab_size, config.hidden_size, /*padding_idx=*/0))),
        positions(
            register_module("positions", embedding(config.max_position_embeddings, config.hidden_size, std::nullopt))),
        patches(register_module("patches", patch_projection(config.num_channels, config.hidden_size, config.patch_size,
                                                            /*bias=*/true))),
        patch_positions(register_parameter(
            "patch_positions",
            torch::empty({1, 1 + (config.image_size / config.patch_size) * (config.image_size / config.patch_size),
                          config.hidden_size}))) {}

  Tensor image_features(const Tensor& pixel_values) {
    check_images(pixel_values, config.num_channels, std::nullopt);
    const int64_t rows = pixel_values.size(2) / config.patch_size, columns = pixel_values.size(3) / config.patch_size;
    const Tensor embedded = patches(pixel_values).flatten(2).transpose(1, 2);
    return embedded + interpolated_positions(patch_positions, rows, columns).slice(1, 1);
  }

  Tensor forward(const Batch& batch) {
    const Tensor embedded =
        word_embeddings(batch.input_ids) + positions(counted_position_ids(batch.input_ids, /*padding_idx=*/0));
    if (!batch.pixel_values.defined()) return embedded;
    return with_images(embedded, batch.input_ids, config.image_token_id, image_features(batch.pixel_values));
  }

  void reset_parameters() override {
    init::linear_and_embedding_(*this, config.initializer_range);
    init::zeros_(patch_positions);
  }

  EncoderConfig config;
  TP_VOCAB nn::Embedding word_embeddings;
  nn::Embedding positions;
  nn::Conv2d patches;
  Tensor patch_positions;  // [1, 1 + patches, hidden]
};
TORCH_MODULE(EncoderEmbeddings);

class EncoderModelImpl : public Module {
 public:
  explicit EncoderModelImpl(const EncoderConfig& config)
      : config(config),
        embeddings(register_module("embeddings", EncoderEmbeddings(config))),
        layers(register_module("layers", ModuleListOf<EncoderLayer>())) {
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) layers->push_back(EncoderLayer(config));
  }

  Tensor forward(const Batch& batch) {
    Tensor hidden_states = embeddings(batch);
    const AttentionMask mask = bidirectional_mask(batch, config.local_attention / 2);
    for (auto& layer : *layers) hidden_states = layer(hidden_states, mask);
    return hidden_states;
  }

  EncoderConfig config;
  PP_FIRST EncoderEmbeddings embeddings;
  PP_SPLIT ModuleListOf<EncoderLayer> layers;
};
TORCH_MODULE(EncoderModel);

/// Scores of each token, from a table that is tied to that of the embeddings.
class EncoderHeadImpl : public Module {
 public:
  explicit EncoderHeadImpl(const EncoderConfig& config)
      : Module(config.initializer_range),
        config(config),
        dense(register_module("dense", linear(config.hidden_size, config.hidden_size, /*bias=*/true))),
        decoder(register_module("decoder", linear(config.hidden_size, config.vocab_size, /*bias=*/false))) {}

  Tensor forward(const Tensor& hidden_states) {
    return decoder(activation(config.hidden_act, tp::gather(dense(hidden_states))));
  }

  EncoderConfig config;
  TP_COLWISE nn::Linear dense;
  TP_VOCAB nn::Linear decoder;
};
TORCH_MODULE(EncoderHead);

class MODEL_ENTRY("masked-lm") FSDP_UNIT EncoderForMaskedLMImpl : public Module {
 public:
  explicit EncoderForMaskedLMImpl(const EncoderConfig& config)
      : model(register_module("model", EncoderModel(config))), head(register_module("head", EncoderHead(config))) {}

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = model(batch);
    const Tensor logits = head(hidden_states);
    Outputs outputs;
    if (batch.labels.defined()) {
      outputs.loss_sum = cross_entropy(logits, batch.labels);
      outputs.token_count = batch.labels.ne(kIgnoredTarget).sum();
    }
    if (batch.want_logits) outputs.logits = logits;
    return outputs;
  }

  EncoderModel model;
  PP_LAST TIES(EncoderHeadImpl::decoder->weight, model->embeddings->word_embeddings->weight) EncoderHead head;
};
TORCH_MODULE(EncoderForMaskedLM);

class MODEL_ENTRY("sentence-embedding") FSDP_UNIT EncoderForSentencesImpl : public Module {
 public:
  explicit EncoderForSentencesImpl(const EncoderConfig& config)
      : model(register_module("model", EncoderModel(config))) {}

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = model(batch);
    const Tensor pooled = sentence_embeddings(hidden_states, batch);
    Outputs outputs;
    if (batch.labels.defined()) {
      outputs.loss_sum = sentence_loss(pooled, batch.labels);
      outputs.token_count = sentence_count(pooled, batch.labels);
    }
    if (batch.want_logits) outputs.logits = pooled;
    return outputs;
  }

  EncoderModel model;
};
TORCH_MODULE(EncoderForSentences);

class MODEL_ENTRY("sentence-pair-classification") FSDP_UNIT EncoderForSentencePairsImpl : public Module {
 public:
  explicit EncoderForSentencePairsImpl(const EncoderConfig& config)
      : Module(config.initializer_range),
        config(config),
        model(register_module("model", EncoderModel(config))),
        classifier(register_module("classifier", linear(3 * config.hidden_size, config.num_labels, /*bias=*/true))) {}

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = model(batch);
    const Tensor pooled = first_tokens(hidden_states);
    Tensor logits = classifier(pair_features(pooled));
    Outputs outputs;
    if (batch.labels.defined()) {
      outputs.loss_sum = classification_loss(logits, batch.labels, config.problem_type);
      outputs.token_count = count_targets(batch.labels);
    }
    if (batch.want_logits) outputs.logits = logits;
    return outputs;
  }

  EncoderConfig config;
  EncoderModel model;
  PP_LAST nn::Linear classifier;
};
TORCH_MODULE(EncoderForSentencePairs);

}  // namespace modular::encoder
