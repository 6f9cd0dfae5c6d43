// A session-based recommendation model, after Transformers4Rec (de Souza Pereira Moreira et al., 2021;
// NVIDIA-Merlin/Transformers4Rec): items with side features, combined into one embedding per interaction, through
// GPT-2's blocks to the next item. Id 0 is padding, for items and for features.
#pragma once

#include <vector>

#include "modular/gpt2.h"

namespace modular::session {
MODULAR_FAMILY(Session);

struct SessionConfig : gpt2::GPT2Config {
  int64_t vocab_size = 50000;  // items, including padding
  int64_t n_positions = 64;
  int64_t n_embd = 192;
  int64_t n_layer = 3;
  int64_t n_head = 4;
  int64_t item_dim = 64;
  int64_t feature_dim = 64;  // size of each categorical feature's embedding; item_dim if they are summed
  std::vector<int64_t> feature_cardinalities;  // number of ids of each categorical feature, including padding
  int64_t feature_numbers = 0;                 // number of numeric features
  std::string aggregation = "concat";          // or "element-wise-sum"
  double embedding_std = 0.05;
  double softmax_temperature = 1.0;

  void finish() {
    if (item_dim < 1 || feature_dim < 1 || feature_numbers < 0)
      throw ConfigError("item_dim and feature_dim must be at least 1, and feature_numbers at least 0");
    for (const int64_t cardinality : feature_cardinalities)
      if (cardinality < 2) throw ConfigError("each of feature_cardinalities must be at least 2: padding and one id");
    if (aggregation != "concat" && aggregation != "element-wise-sum")
      throw ConfigError("aggregation must be concat or element-wise-sum");
    if (aggregation == "element-wise-sum" && !feature_cardinalities.empty() && feature_dim != item_dim)
      throw ConfigError("summed features need the same size: set feature_dim to item_dim");
    if (softmax_temperature <= 0.0) throw ConfigError("softmax_temperature must be above 0");
    GPT2Config::finish();
  }
};

/// Number of features that an interaction's embedding is projected from.
inline int64_t interaction_dim(const SessionConfig& config) {
  if (config.aggregation != "concat") return config.item_dim;
  return config.item_dim + static_cast<int64_t>(config.feature_cardinalities.size()) * config.feature_dim +
         config.feature_numbers;
}

/// Initializes a table of ids with padding in row 0.
inline void fill_table(const Tensor& weight, double std) {
  init::fill(weight, [=](Tensor& full) {
    full.normal_(0.0, std);
    full.select(0, 0).zero_();
  });
}

/// Combines an item and its features into one embedding of the body's size.
class SessionInputsImpl : public Module {
 public:
  explicit SessionInputsImpl(const SessionConfig& config)
      : Module(config.initializer_range),
        config(config),
        item_embedding(embedding(config.vocab_size, config.item_dim, 0)),
        feature_embeddings(ModuleListOf<nn::Embedding>()),
        projection(linear(interaction_dim(config), config.n_embd, /*bias=*/true)) {
    for (const int64_t cardinality : config.feature_cardinalities)
      feature_embeddings->push_back(embedding(cardinality, config.feature_dim, 0));
    if (config.feature_numbers > 0 && config.aggregation != "concat")
      number_projection = linear(config.feature_numbers, config.item_dim, /*bias=*/true);
  }

  /// Combines two values: concatenated or summed.
  Tensor combine(const Tensor& one, const Tensor& other) {
    if (config.aggregation == "concat") return at::cat({one, other}, -1);
    return one + other;
  }

  Tensor forward(const Batch& batch) {
    Tensor interaction = item_embedding(batch.input_ids);
    int64_t feature = 0;
    for (auto& table : *feature_embeddings)
      interaction = combine(interaction, table(batch.feature_ids.select(-1, feature++)));
    if (config.feature_numbers > 0) {
      Tensor numbers = batch.feature_values.to(interaction.scalar_type());
      if (config.aggregation != "concat") numbers = number_projection(numbers);
      interaction = combine(interaction, numbers);
    }
    return at::relu(projection(interaction));
  }

  void reset_parameters() override {
    Module::reset_parameters();  // projections
    fill_table(item_embedding->weight, config.embedding_std);
    for (auto& table : *feature_embeddings) fill_table(table->weight, config.embedding_std);
  }

  SessionConfig config;
  TP_VOCAB nn::Embedding item_embedding;
  ModuleListOf<nn::Embedding> feature_embeddings;
  nn::Linear projection;
  nn::Linear number_projection{nullptr};
};

struct SessionModelImpl : gpt2::GPT2ModelImpl {
  explicit SessionModelImpl(const SessionConfig& config) : GPT2ModelImpl(config), inputs(SessionInputs(config)) {}

  Tensor embed(const Batch& batch) { return drop(inputs(batch) + wpe(position_ids(batch))); }

  PP_FIRST SessionInputs inputs;

 private:
  using GPT2ModelImpl::wte;
};

/// Predicts the next item. If embeddings are tied, the output projection uses the input table.
class MODEL_ENTRY("next-item") FSDP_UNIT SessionForNextItemImpl : public Module {
 public:
  explicit SessionForNextItemImpl(const SessionConfig& config)
      : config(config),
        transformer(SessionModel(config)),
        item_projection(linear(config.n_embd, config.item_dim, /*bias=*/true)),
        head(linear(config.item_dim, config.vocab_size, /*bias=*/true)) {}

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = transformer(batch);
    return predicted(batch, item_projection(hidden_states),
                     batch.labels.defined() ? next_tokens(batch.labels) : batch.labels);
  }

  /// Scores of all items at each position, and the loss of the `targets` if they are defined.
  Outputs predicted(const Batch& batch, const Tensor& item_states, const Tensor& targets) {
    Outputs outputs;
    if (targets.defined()) outputs.token_count = count_targets(targets);
    if (targets.defined() && samples_classes()) {
      outputs.loss_sum =
          sampled_cross_entropy(item_states, head->weight, head->bias, targets, config.softmax_temperature);
      if (!batch.want_logits) return outputs;
    }
    const Tensor logits = head(item_states) / config.softmax_temperature;
    if (targets.defined() && !samples_classes()) outputs.loss_sum = cross_entropy(logits, targets);
    if (batch.want_logits) outputs.logits = logits;
    return outputs;
  }

  void reset_parameters() override {
    init::normal_(item_projection->weight, 0.0, config.initializer_range);
    init::zeros_(item_projection->bias);
    if (!config.tie_word_embeddings)
      init::normal_(head->weight, 0.0, config.initializer_range);  // otherwise the embedding initializes it
    init::zeros_(head->bias);
  }

  SessionConfig config;
  SessionModel transformer;
  PP_LAST nn::Linear item_projection;
  PP_LAST TP_VOCAB TIED_TO(transformer->inputs->item_embedding->weight) nn::Linear head;
};

/// Sees the full session except the items, and their features, at positions with a label: a learned embedding replaces
/// these.
struct SessionMaskedModelImpl : SessionModelImpl {
  explicit SessionMaskedModelImpl(const SessionConfig& config)
      : SessionModelImpl(config),
        masked_item_embedding(register_parameter("masked_item_embedding", torch::empty({config.n_embd}))) {}

  Tensor embed(const Batch& batch) {
    Tensor interactions = inputs(batch);
    if (batch.labels.defined()) {
      const Tensor hidden = batch.labels.ne(kIgnoredTarget).view({interactions.size(0), interactions.size(1), 1});
      interactions = at::where(hidden, masked_item_embedding, interactions);
    }
    return drop(interactions + wpe(position_ids(batch)));
  }

  AttentionMask attention_mask(const Batch& batch) { return bidirectional_mask(batch); }

  void reset_parameters() override {
    SessionModelImpl::reset_parameters();
    init::normal_(masked_item_embedding, 0.0, 0.001);
  }

  PP_FIRST Tensor masked_item_embedding;  // [hidden]
};

/// Predicts masked items from those before and after them (Sun et al., BERT4Rec), like Transformers4Rec's masked
/// language modeling.
class MODEL_ENTRY("masked-item") FSDP_UNIT SessionForMaskedItemImpl : public SessionForNextItemImpl {
 public:
  explicit SessionForMaskedItemImpl(const SessionConfig& config)
      : SessionForNextItemImpl(config), transformer(SessionMaskedModel(config)) {}

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = transformer(batch);
    return predicted(batch, item_projection(hidden_states), batch.labels);
  }

  SessionMaskedModel transformer;
};

}  // namespace modular::session
