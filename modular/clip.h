// CLIP (Radford et al., 2021), as in Hugging Face transformers: a text tower and an image tower with similar features
// for matching pairs. Pipelines cut the pair between its towers; an image tower on its own is not cut.
#pragma once

#include <cmath>
#include <optional>
#include <string>

#include "modular/modular.h"

namespace modular::clip {
MODULAR_FAMILY(CLIP);

/// The part of a tower's config that its layers read.
struct CLIPTower {
  int64_t hidden_size;
  int64_t intermediate_size;
  int64_t num_hidden_layers;
  int64_t num_attention_heads;
  std::string hidden_act;
  double layer_norm_eps;
  double attention_dropout;
  double initializer_factor;

  /// Initial standard deviation of the features that a layer reads.
  double input_std() const { return initializer_factor / std::sqrt(static_cast<double>(hidden_size)); }
  /// That of branches that are added to the residual path; smaller for deeper models.
  double residual_std() const {
    return 1.0 / std::sqrt(static_cast<double>(hidden_size * 2 * num_hidden_layers)) * initializer_factor;
  }
};

struct CLIPTextConfig : Config {
  int64_t vocab_size = 49408;
  int64_t hidden_size = 512;
  int64_t intermediate_size = 2048;
  std::optional<int64_t> projection_dim = 512;  // for a single tower; the pair has a field of its own
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 8;
  int64_t max_position_embeddings = 77;
  std::string hidden_act = "quick_gelu";
  double layer_norm_eps = 1e-5;
  double attention_dropout = 0.0;
  double initializer_range = 0.02;
  double initializer_factor = 1.0;
  std::optional<int64_t> pad_token_id = 1;
  int64_t eos_token_id = 49407;

  void finish() {
    if (hidden_size % num_attention_heads != 0)
      throw ConfigError("text_config: hidden_size must be a multiple of num_attention_heads");
  }

  CLIPTower tower() const {
    return {hidden_size, intermediate_size, num_hidden_layers, num_attention_heads,
            hidden_act,  layer_norm_eps,    attention_dropout, initializer_factor};
  }
};

struct CLIPVisionConfig : Config {
  int64_t hidden_size = 768;
  int64_t intermediate_size = 3072;
  int64_t projection_dim = 512;  // like the text config's
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;
  int64_t num_channels = 3;
  int64_t image_size = 224;
  int64_t patch_size = 32;
  std::string hidden_act = "quick_gelu";
  double layer_norm_eps = 1e-5;
  double attention_dropout = 0.0;
  double initializer_range = 0.02;
  double initializer_factor = 1.0;

  void finish() {
    if (hidden_size % num_attention_heads != 0)
      throw ConfigError("vision_config: hidden_size must be a multiple of num_attention_heads");
    if (image_size < patch_size) throw ConfigError("vision_config: image_size must be at least patch_size");
  }

  CLIPTower tower() const {
    return {hidden_size, intermediate_size, num_hidden_layers, num_attention_heads,
            hidden_act,  layer_norm_eps,    attention_dropout, initializer_factor};
  }
};

struct CLIPConfig : Config {
  CLIPTextConfig text_config;
  CLIPVisionConfig vision_config;
  int64_t projection_dim = 512;
  double logit_scale_init_value = 2.6592;
  double initializer_factor = 1.0;
  int64_t num_labels = 2;                   // number of classifier labels
  std::optional<std::string> problem_type;  // selects the classifier's loss

  void finish() {
    text_config.finish();
    vision_config.finish();
    check_labels(num_labels, problem_type);
  }
};

class CLIPVisionEmbeddingsImpl : public Module {
 public:
  explicit CLIPVisionEmbeddingsImpl(const CLIPVisionConfig& config)
      : config(config),
        patches_per_side(config.image_size / config.patch_size),
        class_embedding(register_parameter("class_embedding", torch::empty({config.hidden_size}))),
        patch_embedding(patch_projection(config.num_channels, config.hidden_size, config.patch_size, /*bias=*/false)),
        position_embedding(embedding(patches_per_side * patches_per_side + 1, config.hidden_size, std::nullopt)) {}

  /// [images, 1 + patches, hidden]
  Tensor forward(const Tensor& pixel_values) {
    check_images(pixel_values, config.num_channels, config.image_size);
    const Tensor patches =
        patch_embedding(pixel_values.to(patch_embedding->weight.scalar_type())).flatten(2).transpose(1, 2);
    const Tensor classes = class_embedding.expand({patches.size(0), 1, -1});
    return torch::cat({classes, patches}, 1) + position_embedding->weight;
  }

  void reset_parameters() override {
    init::linear_and_embedding_(*this, config.initializer_range * config.initializer_factor);
    init::normal_(class_embedding, 0.0, config.tower().input_std());
  }

  CLIPVisionConfig config;
  int64_t patches_per_side;
  Tensor class_embedding;  // [hidden]
  nn::Conv2d patch_embedding;
  nn::Embedding position_embedding;
};

class CLIPTextEmbeddingsImpl : public Module {
 public:
  explicit CLIPTextEmbeddingsImpl(const CLIPTextConfig& config)
      : Module(0.02 * config.initializer_factor),
        config(config),
        token_embedding(embedding(config.vocab_size, config.hidden_size, std::nullopt)),
        position_embedding(embedding(config.max_position_embeddings, config.hidden_size, std::nullopt)) {}

  Tensor forward(const Batch& batch) {
    return token_embedding(batch.input_ids) + position_embedding(position_ids(batch));
  }

  CLIPTextConfig config;
  TP_VOCAB nn::Embedding token_embedding;
  nn::Embedding position_embedding;
};

class CLIPAttentionImpl : public Module {
 public:
  explicit CLIPAttentionImpl(const CLIPTower& tower)
      : Module(tower.residual_std()),
        num_attention_heads(tower.num_attention_heads),
        head_dim(tower.hidden_size / tower.num_attention_heads),
        scaling(1.0 / std::sqrt(static_cast<double>(head_dim))),
        out_std(tower.input_std()),
        k_proj(linear(tower.hidden_size, tower.hidden_size, /*bias=*/true)),
        v_proj(linear(tower.hidden_size, tower.hidden_size, /*bias=*/true)),
        q_proj(linear(tower.hidden_size, tower.hidden_size, /*bias=*/true)),
        out_proj(linear(tower.hidden_size, tower.hidden_size, /*bias=*/true)),
        dropout(nn::Dropout(tower.attention_dropout)) {}

  Tensor forward(const Tensor& hidden_states, const AttentionMask& mask) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1);
    const Tensor query = q_proj(hidden_states).view({batch, seq, num_attention_heads, head_dim}).transpose(1, 2);
    const Tensor key = k_proj(hidden_states).view({batch, seq, num_attention_heads, head_dim}).transpose(1, 2);
    const Tensor value = v_proj(hidden_states).view({batch, seq, num_attention_heads, head_dim}).transpose(1, 2);
    return out_proj(attention(query, key, value, mask, scaling, dropout));
  }

  void reset_parameters() override {
    Module::reset_parameters();
    init::normal_(out_proj->weight, 0.0, out_std);
  }

  TP_LOCAL int64_t num_attention_heads;
  int64_t head_dim;
  double scaling;
  double out_std;
  TP_COLWISE nn::Linear k_proj;
  TP_COLWISE nn::Linear v_proj;
  TP_COLWISE nn::Linear q_proj;
  TP_ROWWISE nn::Linear out_proj;
  nn::Dropout dropout;  // on attention weights
};

class CLIPMLPImpl : public Module {
 public:
  explicit CLIPMLPImpl(const CLIPTower& tower)
      : Module(tower.initializer_factor / std::sqrt(static_cast<double>(2 * tower.hidden_size))),
        hidden_act(tower.hidden_act),
        out_std(tower.residual_std()),
        fc1(linear(tower.hidden_size, tower.intermediate_size, /*bias=*/true)),
        fc2(linear(tower.intermediate_size, tower.hidden_size, /*bias=*/true)) {}

  Tensor forward(const Tensor& hidden_states) { return fc2(activation(hidden_act, fc1(hidden_states))); }

  void reset_parameters() override {
    Module::reset_parameters();
    init::normal_(fc2->weight, 0.0, out_std);
  }

  std::string hidden_act;
  double out_std;
  TP_COLWISE nn::Linear fc1;
  TP_ROWWISE nn::Linear fc2;
};

/// A layer of either tower.
class FSDP_UNIT CLIPEncoderLayerImpl : public Module {
 public:
  explicit CLIPEncoderLayerImpl(const CLIPTower& tower)
      : self_attn(CLIPAttention(tower)),
        layer_norm1(LayerNorm(tower.hidden_size, tower.layer_norm_eps)),
        mlp(CLIPMLP(tower)),
        layer_norm2(LayerNorm(tower.hidden_size, tower.layer_norm_eps)) {}

  Tensor forward(const Tensor& hidden_states, const AttentionMask& mask) {
    const Tensor attended = hidden_states + self_attn(layer_norm1(hidden_states), mask);
    return attended + mlp(layer_norm2(attended));
  }

  CLIPAttention self_attn;
  LayerNorm layer_norm1;
  CLIPMLP mlp;
  LayerNorm layer_norm2;
};

class CLIPEncoderImpl : public Module {
 public:
  explicit CLIPEncoderImpl(const CLIPTower& tower) : layers(ModuleListOf<CLIPEncoderLayer>()) {
    for (int64_t i = 0; i < tower.num_hidden_layers; ++i) layers->push_back(CLIPEncoderLayer(tower));
  }

  PP_SPLIT ModuleListOf<CLIPEncoderLayer> layers;
};

class CLIPTextModelImpl : public Module {
 public:
  explicit CLIPTextModelImpl(const CLIPTextConfig& config)
      : config(config),
        embeddings(CLIPTextEmbeddings(config)),
        encoder(CLIPEncoder(config.tower())),
        final_layer_norm(LayerNorm(config.hidden_size, config.layer_norm_eps)) {}

  /// The tokens that each token attends to.
  AttentionMask attention_mask(const Batch& batch) { return causal_mask(batch, /*window=*/0); }

  /// End position of each text: [batch].
  Tensor ends(const Tensor& input_ids) {
    // Early configs have 2 for any end token: it is the token with the largest id.
    if (config.eos_token_id == 2) return input_ids.argmax(-1);
    return input_ids.eq(config.eos_token_id).to(torch::kInt).argmax(-1);
  }

  /// Feature of each text, from its last token: [batch, hidden].
  Tensor pooled(const Tensor& hidden_states, const Batch& batch) {
    return tokens_at(hidden_states, ends(batch.input_ids));
  }

  Tensor forward(const Batch& batch) {
    const AttentionMask mask = attention_mask(batch);
    Tensor hidden_states = embeddings(batch);
    for (auto& layer : *encoder->layers) hidden_states = layer(hidden_states, mask);
    return pooled(final_layer_norm(hidden_states), batch);
  }

  CLIPTextConfig config;
  PP_FIRST CLIPTextEmbeddings embeddings;
  CLIPEncoder encoder;
  PP_LAST LayerNorm final_layer_norm;
};

class CLIPVisionModelImpl : public Module {
 public:
  explicit CLIPVisionModelImpl(const CLIPVisionConfig& config)
      : embeddings(CLIPVisionEmbeddings(config)),
        pre_layrnorm(LayerNorm(config.hidden_size, config.layer_norm_eps)),
        encoder(CLIPEncoder(config.tower())),
        post_layernorm(LayerNorm(config.hidden_size, config.layer_norm_eps)) {}

  /// Input of the layers: [images, 1 + patches, hidden].
  Tensor embed(const Tensor& pixel_values) { return pre_layrnorm(embeddings(pixel_values)); }

  /// [images, 1 + patches, hidden]
  Tensor forward(const Tensor& pixel_values) {
    Tensor hidden_states = embed(pixel_values);
    const AttentionMask mask = whole_mask();
    for (auto& layer : *encoder->layers) hidden_states = layer(hidden_states, mask);
    return hidden_states;
  }

  /// Feature of each image, from its class token: [images, hidden].
  Tensor pooled(const Tensor& hidden_states) { return post_layernorm(hidden_states.select(1, 0)); }

  PP_FIRST CLIPVisionEmbeddings embeddings;
  PP_FIRST LayerNorm pre_layrnorm;
  CLIPEncoder encoder;
  PP_LAST LayerNorm post_layernorm;
};

/// Scores matching texts and images. Logits are the scores of each image against all texts.
class MODEL_ENTRY("contrastive-pairs") FSDP_UNIT CLIPModelImpl : public Module {
 public:
  explicit CLIPModelImpl(const CLIPConfig& config)
      : config(config),
        text_model(CLIPTextModel(config.text_config)),
        vision_model(CLIPVisionModel(config.vision_config)),
        visual_projection(linear(config.vision_config.hidden_size, config.projection_dim, /*bias=*/false)),
        text_projection(linear(config.text_config.hidden_size, config.projection_dim, /*bias=*/false)),
        logit_scale(register_parameter("logit_scale", torch::empty({}))) {}

  /// Features of length 1: [images, projection_dim].
  Tensor image_features(const Batch& batch) {
    const Tensor hidden_states = vision_model(batch.pixel_values);
    return unit_rows(visual_projection(vision_model->pooled(hidden_states)));
  }
  /// Features of length 1: [texts, projection_dim].
  Tensor text_features(const Batch& batch) {
    const Tensor pooled = text_model(batch);
    return unit_rows(text_projection(pooled));
  }

  /// Scores of the rows of one side against all rows of the other.
  Tensor scores(const Tensor& rows, const Tensor& others) {
    return rows.matmul(dp::gather(others).t()) * logit_scale.exp();
  }

  /// Sum of the losses of the rows that have a target.
  Tensor loss(const Tensor& images, const Tensor& texts, const Tensor& targets) {
    return (cross_entropy(scores(images, texts), targets) + cross_entropy(scores(texts, images), targets)) / 2.0;
  }

  Outputs forward(const Batch& batch) {
    const Tensor images = image_features(batch);
    const Tensor texts = text_features(batch);
    Outputs outputs;
    if (batch.labels.defined()) {
      const Tensor targets = pair_targets(batch.labels);
      outputs.loss_sum = loss(images, texts, targets);
      outputs.token_count = count_targets(targets);
    }
    if (batch.want_logits) outputs.logits = scores(images, texts);
    return outputs;
  }

  void reset_parameters() override {
    const double text_width = static_cast<double>(config.text_config.hidden_size);
    const double vision_width = static_cast<double>(config.vision_config.hidden_size);
    init::normal_(text_projection->weight, 0.0, config.initializer_factor / std::sqrt(text_width));
    init::normal_(visual_projection->weight, 0.0, config.initializer_factor / std::sqrt(vision_width));
    init::constant_(logit_scale, config.logit_scale_init_value);
  }

  CLIPConfig config;
  PP_LAST CLIPTextModel text_model;
  PP_FIRST CLIPVisionModel vision_model;
  PP_FIRST nn::Linear visual_projection;
  PP_LAST nn::Linear text_projection;
  PP_LAST Tensor logit_scale;  // []
};

/// Classifies images by the mean over their patches.
class MODEL_ENTRY("image-classification") FSDP_UNIT CLIPForImageClassificationImpl : public Module {
 public:
  explicit CLIPForImageClassificationImpl(const CLIPConfig& config)
      : Module(config.initializer_factor / std::sqrt(static_cast<double>(config.vision_config.hidden_size))),
        config(config),
        vision_model(CLIPVisionModel(config.vision_config)),
        classifier(linear(config.vision_config.hidden_size, config.num_labels, /*bias=*/true)) {}

  /// Input of the classifier.
  Tensor features(const Tensor& hidden_states) { return hidden_states.slice(1, 1).mean(1); }

  Outputs forward(const Batch& batch) {
    const Tensor hidden_states = vision_model(batch.pixel_values);
    return classification_outputs(classifier(features(hidden_states)), batch, config.problem_type);
  }

  CLIPConfig config;
  CLIPVisionModel vision_model;
  PP_LAST nn::Linear classifier;
};

}  // namespace modular::clip
