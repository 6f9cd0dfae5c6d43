// ModernBERT (Warner et al., 2024), as in Hugging Face transformers: an encoder with RoPE and with local attention in
// most layers.
#pragma once

#include "modular/bert.h"

namespace modular::modernbert {
MODULAR_FAMILY(ModernBert, .title = "ModernBERT",
               .members = {{"bert", "model"}, {"BertForSequenceClassification::dropout", "drop"}});

struct ModernBertConfig : Config {
  int64_t vocab_size = 50368;
  int64_t hidden_size = 768;
  int64_t intermediate_size = 1152;
  int64_t num_hidden_layers = 22;
  int64_t num_attention_heads = 12;
  std::string hidden_activation = "gelu";
  int64_t max_position_embeddings = 8192;
  double initializer_range = 0.02;
  double initializer_cutoff_factor = 2.0;
  double norm_eps = 1e-5;
  bool norm_bias = false;
  std::optional<int64_t> pad_token_id = 50283;
  bool attention_bias = false;
  double attention_dropout = 0.0;
  std::vector<std::string> layer_types;               // type of each layer: full_attention or sliding_attention
  std::optional<int64_t> global_attn_every_n_layers;  // period of full layers if layer_types is not given; 3 by default
  LayerRopeParameters rope_parameters = {rotary_base(160000.0), rotary_base(10000.0)};
  int64_t local_attention = 128;  // number of tokens that a sliding layer's query attends to, half on each side
  double embedding_dropout = 0.0;
  bool mlp_bias = false;
  double mlp_dropout = 0.0;
  bool decoder_bias = true;
  std::string classifier_pooling = "cls";
  double classifier_dropout = 0.0;
  bool classifier_bias = false;
  std::string classifier_activation = "gelu";
  bool tie_word_embeddings = true;
  int64_t num_labels = 2;                   // number of classifier labels
  std::optional<std::string> problem_type;  // selects the loss of sequence classifiers

  void finish() {
    if (num_attention_heads < 1 || hidden_size % num_attention_heads != 0)
      throw ConfigError("hidden_size must be a multiple of num_attention_heads");
    if (layer_types.empty())
      for (int64_t layer = 0; layer < num_hidden_layers; ++layer)
        layer_types.push_back(layer % global_attn_every_n_layers.value_or(3) == 0 ? "full_attention"
                                                                                  : "sliding_attention");
    check_layer_types(layer_types, num_hidden_layers, {"full_attention", "sliding_attention"});
    if (classifier_pooling != "cls" && classifier_pooling != "mean")
      throw ConfigError("classifier_pooling must be \"cls\" or \"mean\"");
    check_labels(num_labels, problem_type);
  }

  double head_dropout() const { return classifier_dropout; }

  /// Initial standard deviation of branches that are added to the residual path.
  double output_range() const { return initializer_range / std::sqrt(2.0 * static_cast<double>(num_hidden_layers)); }
};

class ModernBertEmbeddingsImpl : public Module {
 public:
  explicit ModernBertEmbeddingsImpl(const ModernBertConfig& config)
      : config(config),
        tok_embeddings(embedding(config.vocab_size, config.hidden_size, config.pad_token_id)),
        norm(LayerNorm(config.hidden_size, config.norm_eps, config.norm_bias)),
        drop(nn::Dropout(config.embedding_dropout)) {}

  Tensor forward(const Batch& batch) { return drop(norm(tok_embeddings(batch.input_ids))); }

  void reset_parameters() override {
    init::truncated_normal_(tok_embeddings->weight, config.initializer_range, config.initializer_cutoff_factor);
  }

  ModernBertConfig config;
  TP_VOCAB nn::Embedding tok_embeddings;
  LayerNorm norm;
  nn::Dropout drop;
};

/// Gated feed-forward network.
class ModernBertMLPImpl : public Module {
 public:
  explicit ModernBertMLPImpl(const ModernBertConfig& config)
      : config(config),
        Wi(linear(config.hidden_size, 2 * config.intermediate_size, config.mlp_bias)),
        Wo(linear(config.intermediate_size, config.hidden_size, config.mlp_bias)),
        drop(nn::Dropout(config.mlp_dropout)) {}

  Tensor forward(const Tensor& hidden_states) {
    const auto parts = Wi(hidden_states).chunk(2, -1);
    return Wo(drop(gated_activation(config.hidden_activation, parts[0], parts[1])));
  }

  void reset_parameters() override {
    init::truncated_normal_(Wi->weight, config.initializer_range, config.initializer_cutoff_factor);
    init::truncated_normal_(Wo->weight, config.output_range(), config.initializer_cutoff_factor);
    init::zeros_(Wi->bias);
    init::zeros_(Wo->bias);
  }

  ModernBertConfig config;
  TP_COLWISE_PARTS(config.intermediate_size, config.intermediate_size) nn::Linear Wi;
  TP_ROWWISE nn::Linear Wo;
  nn::Dropout drop;
};

class ModernBertAttentionImpl : public Module {
 public:
  explicit ModernBertAttentionImpl(const ModernBertConfig& config)
      : config(config),
        num_heads(config.num_attention_heads),
        head_dim(config.hidden_size / config.num_attention_heads),
        Wqkv(linear(config.hidden_size, 3 * config.hidden_size, config.attention_bias)),
        Wo(linear(config.hidden_size, config.hidden_size, config.attention_bias)),
        attention_dropout(nn::Dropout(config.attention_dropout)),
        out_drop(nn::Dropout(config.attention_dropout)) {}

  Tensor forward(const Tensor& hidden_states, const RotaryTables& rotary_embeddings, const AttentionMask& mask) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1);
    const auto parts = Wqkv(hidden_states).chunk(3, -1);
    const Tensor query = parts[0].view({batch, seq, num_heads, head_dim}).transpose(1, 2);
    const Tensor key = parts[1].view({batch, seq, num_heads, head_dim}).transpose(1, 2);
    const Tensor value = parts[2].view({batch, seq, num_heads, head_dim}).transpose(1, 2);
    const auto& [cos, sin] = rotary_embeddings;
    return out_drop(Wo(attention(rotary(query, cos, sin), rotary(key, cos, sin), value, mask,
                                 1.0 / std::sqrt(static_cast<double>(head_dim)), attention_dropout)));
  }

  void reset_parameters() override {
    init::truncated_normal_(Wqkv->weight, config.initializer_range, config.initializer_cutoff_factor);
    init::truncated_normal_(Wo->weight, config.output_range(), config.initializer_cutoff_factor);
    init::zeros_(Wqkv->bias);
    init::zeros_(Wo->bias);
  }

  ModernBertConfig config;
  TP_LOCAL int64_t num_heads;
  int64_t head_dim;
  TP_COLWISE_PARTS(config.hidden_size, config.hidden_size, config.hidden_size) nn::Linear Wqkv;
  TP_ROWWISE nn::Linear Wo;
  nn::Dropout attention_dropout;
  nn::Dropout out_drop;
};

class FSDP_UNIT ModernBertEncoderLayerImpl : public Module {
 public:
  ModernBertEncoderLayerImpl(const ModernBertConfig& config, int64_t layer)
      : attn(ModernBertAttention(config)),
        mlp_norm(LayerNorm(config.hidden_size, config.norm_eps, config.norm_bias)),
        mlp(ModernBertMLP(config)),
        is_first(layer == 0),
        is_sliding(config.layer_types.at(layer) == "sliding_attention") {
    if (!is_first) attn_norm = LayerNorm(config.hidden_size, config.norm_eps, config.norm_bias);
  }

  Tensor forward(const Tensor& hidden_states, const RotaryTables& rotary_embeddings, const AttentionMask& mask) {
    const Tensor normed = is_first ? hidden_states : attn_norm(hidden_states);
    const Tensor residual = hidden_states + attn(normed, rotary_embeddings, mask);
    return residual + mlp(mlp_norm(residual));
  }

  LayerNorm attn_norm{nullptr};  // null in the first layer, whose input is already normed
  ModernBertAttention attn;
  LayerNorm mlp_norm;
  ModernBertMLP mlp;
  bool is_first;
  bool is_sliding;
};

/// Embeddings, layers and final norm.
class ModernBertModelImpl : public Module {
 public:
  explicit ModernBertModelImpl(const ModernBertConfig& config)
      : config(config),
        embeddings(ModernBertEmbeddings(config)),
        layers(ModuleListOf<ModernBertEncoderLayer>()),
        final_norm(LayerNorm(config.hidden_size, config.norm_eps, config.norm_bias)) {
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
      layers->push_back(ModernBertEncoderLayer(config, layer));
  }

  RotaryTables rotary_embeddings(const RopeParameters& rope, const Batch& batch, at::ScalarType type) {
    return rotary_tables(rope, config.hidden_size / config.num_attention_heads, config.max_position_embeddings, batch,
                         type);
  }

  Tensor forward(const Batch& batch) {
    Tensor hidden_states = embeddings(batch);
    const at::ScalarType type = hidden_states.scalar_type();
    const RotaryTables full = rotary_embeddings(config.rope_parameters.full_attention, batch, type);
    const RotaryTables sliding = rotary_embeddings(config.rope_parameters.sliding_attention, batch, type);
    const AttentionMask full_mask = bidirectional_mask(batch);
    const AttentionMask sliding_mask = bidirectional_mask(batch, /*reach=*/config.local_attention / 2);
    for (auto& layer : *layers)
      hidden_states =
          layer(hidden_states, layer->is_sliding ? sliding : full, layer->is_sliding ? sliding_mask : full_mask);
    return final_norm(hidden_states);
  }

  ModernBertConfig config;
  PP_FIRST ModernBertEmbeddings embeddings;
  PP_SPLIT ModuleListOf<ModernBertEncoderLayer> layers;
  PP_LAST LayerNorm final_norm;
};

class ModernBertPredictionHeadImpl : public Module {
 public:
  explicit ModernBertPredictionHeadImpl(const ModernBertConfig& config)
      : config(config),
        dense(linear(config.hidden_size, config.hidden_size, config.classifier_bias)),
        norm(LayerNorm(config.hidden_size, config.norm_eps, config.norm_bias)) {}

  Tensor forward(const Tensor& hidden_states) {
    return norm(activation(config.classifier_activation, dense(hidden_states)));
  }

  void reset_parameters() override {
    init::truncated_normal_(dense->weight, config.output_range(), config.initializer_cutoff_factor);
    init::zeros_(dense->bias);
  }

  ModernBertConfig config;
  nn::Linear dense;
  LayerNorm norm;
};

class MODEL_ENTRY("masked-lm") FSDP_UNIT ModernBertForMaskedLMImpl : public Module {
 public:
  explicit ModernBertForMaskedLMImpl(const ModernBertConfig& config)
      : config(config),
        model(ModernBertModel(config)),
        head(ModernBertPredictionHead(config)),
        decoder(linear(config.hidden_size, config.vocab_size, config.decoder_bias)) {}

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = model(batch);
    return cross_entropy_outputs(decoder(head(hidden_states)), batch, same_labels);
  }

  void reset_parameters() override {
    if (!config.tie_word_embeddings)
      init::truncated_normal_(decoder->weight, config.output_range(), config.initializer_cutoff_factor);
    init::zeros_(decoder->bias);
  }

  ModernBertConfig config;
  ModernBertModel model;
  PP_LAST ModernBertPredictionHead head;
  PP_LAST TP_VOCAB TIED_TO(model->embeddings->tok_embeddings->weight) nn::Linear decoder;
};

struct MODEL_ENTRY("sequence-classification") FSDP_UNIT ModernBertForSequenceClassificationImpl
    : bert::BertForSequenceClassificationImpl {
  explicit ModernBertForSequenceClassificationImpl(const ModernBertConfig& config)
      : BertForSequenceClassificationImpl(config), head(ModernBertPredictionHead(config)) {
    bert = ModernBertModel(config);
  }

  Tensor features(const Tensor& hidden_states, const Batch& batch) {
    return dropout(head(config.classifier_pooling == "cls" ? first_tokens(hidden_states)
                                                           : mean_pooling(hidden_states, batch.attention_mask)));
  }

  void reset_parameters() override {
    init::truncated_normal_(classifier->weight, 1.0 / std::sqrt(static_cast<double>(config.hidden_size)),
                            config.initializer_cutoff_factor);
    init::zeros_(classifier->bias);
  }

  ModernBertConfig config;
  ModernBertModel bert;
  PP_LAST ModernBertPredictionHead head;
};

struct MODEL_ENTRY("token-classification") ModernBertForTokenClassificationImpl
    : ModernBertForSequenceClassificationImpl {
  Tensor features(const Tensor& hidden_states, const Batch&) { return dropout(head(hidden_states)); }
};

/// The base model as a sentence encoder.
struct MODEL_ENTRY("sentence-embedding", "ModernBertModel") FSDP_UNIT ModernBertForSentenceEmbeddingImpl
    : ModernBertModelImpl {
  Outputs forward(const Batch& batch) {
    Tensor hidden_states = ModernBertModelImpl::forward(batch);
    return sentence_outputs(sentence_embeddings(hidden_states, batch), batch);
  }
};

}  // namespace modular::modernbert
