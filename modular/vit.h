// ViT (Dosovitskiy et al., 2020), as in Hugging Face transformers: a Transformer over patches of an image.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "modular/modular.h"

namespace modular::vit {
MODULAR_FAMILY(ViT);

struct ViTConfig : Config {
  int64_t hidden_size = 768;
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;
  int64_t intermediate_size = 3072;
  std::string hidden_act = "gelu";
  double hidden_dropout_prob = 0.0;
  double attention_probs_dropout_prob = 0.0;
  double initializer_range = 0.02;
  double layer_norm_eps = 1e-12;
  int64_t image_size = 224;
  int64_t patch_size = 16;
  int64_t num_channels = 3;
  bool qkv_bias = true;
  int64_t encoder_stride = 16;                // for masked image modeling
  std::optional<int64_t> pooler_output_size;  // for the base model's pooler; hidden_size when not given
  std::string pooler_act = "tanh";            // for the base model's pooler
  int64_t num_labels = 2;
  std::optional<std::string> problem_type;

  void finish() {
    if (num_attention_heads < 1 || hidden_size % num_attention_heads != 0)
      throw ConfigError("hidden_size must be a multiple of num_attention_heads");
    if (image_size < patch_size) throw ConfigError("image_size must be at least patch_size");
    check_labels(num_labels, problem_type);
    if (!pooler_output_size) pooler_output_size = hidden_size;
  }

  /// Checkpoints keep the names from when ViT was a copy of BERT.
  static std::vector<StoredAs> stored_as() {
    return {{"vit.layers.*.attention.q_proj.*", {"vit.encoder.layer.*.attention.attention.query.*"}},
            {"vit.layers.*.attention.k_proj.*", {"vit.encoder.layer.*.attention.attention.key.*"}},
            {"vit.layers.*.attention.v_proj.*", {"vit.encoder.layer.*.attention.attention.value.*"}},
            {"vit.layers.*.attention.o_proj.*", {"vit.encoder.layer.*.attention.output.dense.*"}},
            {"vit.layers.*.mlp.fc1.*", {"vit.encoder.layer.*.intermediate.dense.*"}},
            {"vit.layers.*.mlp.fc2.*", {"vit.encoder.layer.*.output.dense.*"}},
            {"vit.layers.*.*.*", {"vit.encoder.layer.*.*.*"}}};
  }
};

/// Cuts images into patches and projects each: [images, patches, hidden].
class ViTPatchEmbeddingsImpl : public Module {
 public:
  explicit ViTPatchEmbeddingsImpl(const ViTConfig& config)
      : Module(config.initializer_range),
        projection(patch_projection(config.num_channels, config.hidden_size, config.patch_size, /*bias=*/true)) {}

  Tensor forward(const Tensor& pixel_values) {
    return projection(pixel_values.to(projection->weight.scalar_type())).flatten(2).transpose(1, 2);
  }

  nn::Conv2d projection;
};

/// Prepends a class token to the patches and adds positions.
class ViTEmbeddingsImpl : public Module {
 public:
  explicit ViTEmbeddingsImpl(const ViTConfig& config)
      : config(config), patches_per_side(config.image_size / config.patch_size) {
    cls_token = register_parameter("cls_token", torch::empty({1, 1, config.hidden_size}));
    patch_embeddings = ViTPatchEmbeddings(config);
    position_embeddings = register_parameter(
        "position_embeddings", torch::empty({1, patches_per_side * patches_per_side + 1, config.hidden_size}));
    dropout = nn::Dropout(config.hidden_dropout_prob);
  }

  /// Positions of the class token and the patches: [1, 1 + patches, hidden].
  Tensor positions(const Tensor& pixel_values) {
    check_images(pixel_values, config.num_channels, config.image_size);
    return position_embeddings;
  }

  Tensor forward(const Tensor& pixel_values) {
    const Tensor position = positions(pixel_values);
    const Tensor patches = patch_embeddings(pixel_values);
    return dropout(torch::cat({cls_token.expand({patches.size(0), 1, -1}), patches}, 1) + position);
  }

  void reset_parameters() override {
    init::truncated_normal_(position_embeddings, config.initializer_range, 2.0 / config.initializer_range);
    init::truncated_normal_(cls_token, config.initializer_range, 2.0 / config.initializer_range);
  }

  ViTConfig config;
  int64_t patches_per_side;
  Tensor cls_token;  // [1, 1, hidden]
  ViTPatchEmbeddings patch_embeddings{nullptr};
  Tensor position_embeddings;  // [1, 1 + patches, hidden]
  nn::Dropout dropout{nullptr};
};

class ViTAttentionImpl : public Module {
 public:
  explicit ViTAttentionImpl(const ViTConfig& config)
      : Module(config.initializer_range),
        num_attention_heads(config.num_attention_heads),
        head_dim(config.hidden_size / config.num_attention_heads),
        scaling(1.0 / std::sqrt(static_cast<double>(head_dim))),
        q_proj(linear(config.hidden_size, config.hidden_size, config.qkv_bias)),
        k_proj(linear(config.hidden_size, config.hidden_size, config.qkv_bias)),
        v_proj(linear(config.hidden_size, config.hidden_size, config.qkv_bias)),
        o_proj(linear(config.hidden_size, config.hidden_size, /*bias=*/true)),
        attention_dropout(nn::Dropout(config.attention_probs_dropout_prob)) {}

  Tensor forward(const Tensor& hidden_states) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1);
    const Tensor query = q_proj(hidden_states).view({batch, seq, num_attention_heads, head_dim}).transpose(1, 2);
    const Tensor key = k_proj(hidden_states).view({batch, seq, num_attention_heads, head_dim}).transpose(1, 2);
    const Tensor value = v_proj(hidden_states).view({batch, seq, num_attention_heads, head_dim}).transpose(1, 2);
    const AttentionMask mask = whole_mask();
    return o_proj(attention(query, key, value, mask, scaling, attention_dropout));
  }

  TP_LOCAL int64_t num_attention_heads;
  int64_t head_dim;
  double scaling;
  TP_COLWISE nn::Linear q_proj;
  TP_COLWISE nn::Linear k_proj;
  TP_COLWISE nn::Linear v_proj;
  TP_ROWWISE nn::Linear o_proj;
  nn::Dropout attention_dropout;
};

class ViTMLPImpl : public Module {
 public:
  explicit ViTMLPImpl(const ViTConfig& config)
      : Module(config.initializer_range),
        hidden_act(config.hidden_act),
        fc1(linear(config.hidden_size, config.intermediate_size, /*bias=*/true)),
        fc2(linear(config.intermediate_size, config.hidden_size, /*bias=*/true)) {}

  Tensor forward(const Tensor& hidden_states) { return fc2(activation(hidden_act, fc1(hidden_states))); }

  std::string hidden_act;
  TP_COLWISE nn::Linear fc1;
  TP_ROWWISE nn::Linear fc2;
};

class FSDP_UNIT ViTLayerImpl : public Module {
 public:
  explicit ViTLayerImpl(const ViTConfig& config)
      : attention(ViTAttention(config)),
        layernorm_before(LayerNorm(config.hidden_size, config.layer_norm_eps)),
        layernorm_after(LayerNorm(config.hidden_size, config.layer_norm_eps)),
        mlp(ViTMLP(config)),
        dropout(nn::Dropout(config.hidden_dropout_prob)) {}

  Tensor forward(const Tensor& hidden_states) {
    const Tensor attended = dropout(attention(layernorm_before(hidden_states))) + hidden_states;
    return dropout(mlp(layernorm_after(attended))) + attended;
  }

  ViTAttention attention;
  LayerNorm layernorm_before;
  LayerNorm layernorm_after;
  ViTMLP mlp;
  nn::Dropout dropout;
};

class ViTModelImpl : public Module {
 public:
  explicit ViTModelImpl(const ViTConfig& config)
      : embeddings(ViTEmbeddings(config)),
        layers(ModuleListOf<ViTLayer>()),
        layernorm(LayerNorm(config.hidden_size, config.layer_norm_eps)) {
    for (int64_t i = 0; i < config.num_hidden_layers; ++i) layers->push_back(ViTLayer(config));
  }

  Tensor forward(const Tensor& pixel_values) {
    Tensor hidden_states = embeddings(pixel_values);
    for (auto& layer : *layers) hidden_states = layer(hidden_states);
    return layernorm(hidden_states);
  }

  PP_FIRST ViTEmbeddings embeddings;
  PP_SPLIT ModuleListOf<ViTLayer> layers;
  PP_LAST LayerNorm layernorm;
};

/// Classifies images.
class MODEL_ENTRY("image-classification") FSDP_UNIT ViTForImageClassificationImpl : public Module {
 public:
  explicit ViTForImageClassificationImpl(const ViTConfig& config)
      : Module(config.initializer_range),
        config(config),
        vit(ViTModel(config)),
        classifier(linear(config.hidden_size, config.num_labels, /*bias=*/true)) {}

  /// Input of the classifier.
  Tensor features(const Tensor& hidden_states) { return hidden_states.select(1, 0); }

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = vit(batch.pixel_values);
    return classification_outputs(classifier(features(hidden_states)), batch, config.problem_type);
  }

  ViTConfig config;
  ViTModel vit;
  PP_LAST nn::Linear classifier;
};

}  // namespace modular::vit
