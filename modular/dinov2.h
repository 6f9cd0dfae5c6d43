// DINOv2 (Oquab et al., 2023), as in Hugging Face transformers: a ViT with scaled residual paths and with positions for
// images of any size.
#pragma once

#include "modular/vit.h"

namespace modular::dinov2 {
MODULAR_FAMILY(Dinov2, .title = "DINOv2", .members = {{"vit", "dinov2"}});

struct Dinov2Config : vit::ViTConfig {
  int64_t mlp_ratio = 4;
  double layer_norm_eps = 1e-6;
  int64_t patch_size = 14;
  double layerscale_value = 1.0;
  double drop_path_rate = 0.0;
  bool use_swiglu_ffn = false;
  bool apply_layernorm = true;        // for the backbone
  bool reshape_hidden_states = true;  // for the backbone
  bool use_mask_token = true;

  void finish() {
    if (num_attention_heads < 1 || hidden_size % num_attention_heads != 0)
      throw ConfigError("hidden_size must be a multiple of num_attention_heads");
    check_labels(num_labels, problem_type);
  }

  /// A gated network is saved under the model's names. Checkpoints may have two of its layers in one tensor.
  static std::vector<StoredAs> stored_as() {
    return {{"dinov2.encoder.layer.*.attention.q_proj.*", {"dinov2.encoder.layer.*.attention.attention.query.*"}},
            {"dinov2.encoder.layer.*.attention.k_proj.*", {"dinov2.encoder.layer.*.attention.attention.key.*"}},
            {"dinov2.encoder.layer.*.attention.v_proj.*", {"dinov2.encoder.layer.*.attention.attention.value.*"}},
            {"dinov2.encoder.layer.*.attention.o_proj.*", {"dinov2.encoder.layer.*.attention.output.dense.*"}},
            {"dinov2.encoder.layer.*.mlp.**", {"dinov2.encoder.layer.*.mlp.**"}},
            {"dinov2.encoder.layer.*.mlp.gate_proj.*", {"dinov2.encoder.layer.*.mlp.weights_in.*[0/2]"}},
            {"dinov2.encoder.layer.*.mlp.up_proj.*", {"dinov2.encoder.layer.*.mlp.weights_in.*[1/2]"}},
            {"dinov2.encoder.layer.*.mlp.down_proj.*", {"dinov2.encoder.layer.*.mlp.weights_out.*"}}};
  }

 private:
  using ViTConfig::encoder_stride, ViTConfig::intermediate_size, ViTConfig::pooler_act, ViTConfig::pooler_output_size;
};

struct Dinov2EmbeddingsImpl : vit::ViTEmbeddingsImpl {
  explicit Dinov2EmbeddingsImpl(const Dinov2Config& config) : ViTEmbeddingsImpl(config) {
    if (config.use_mask_token) mask_token = register_parameter("mask_token", torch::empty({1, config.hidden_size}));
  }

  Tensor positions(const Tensor& pixel_values) {
    check_images(pixel_values, config.num_channels, std::nullopt);
    return interpolated_positions(position_embeddings, pixel_values.size(2) / config.patch_size,
                                  pixel_values.size(3) / config.patch_size);
  }

  void reset_parameters() override {
    ViTEmbeddingsImpl::reset_parameters();
    init::zeros_(mask_token);
  }

  Dinov2Config config;
  Tensor mask_token;  // [1, hidden]; only for pretraining
};

/// Scales each feature of a residual branch.
class Dinov2LayerScaleImpl : public Module {
 public:
  Dinov2LayerScaleImpl(int64_t hidden_size, double value)
      : lambda1(register_parameter("lambda1", torch::empty({hidden_size}))), value(value) {}

  Tensor forward(const Tensor& hidden_states) { return hidden_states * lambda1; }

  void reset_parameters() override { init::constant_(lambda1, value); }

  Tensor lambda1;  // [hidden]
  double value;
};

struct Dinov2MLPImpl : vit::ViTMLPImpl {
  explicit Dinov2MLPImpl(const Dinov2Config& config) : width(config.hidden_size), ViTMLPImpl(config) {
    fc1 = remake(fc1, linear(config.hidden_size, config.mlp_ratio * width, /*bias=*/true));
    fc2 = remake(fc2, linear(config.mlp_ratio * width, config.hidden_size, /*bias=*/true));
  }

  TP_LOCAL int64_t width;  // split within each multiple
};

/// A gated network with two thirds of the features (Shazeer), rounded up to a multiple of 8.
class Dinov2SwiGLUFFNImpl : public Module {
 public:
  explicit Dinov2SwiGLUFFNImpl(const Dinov2Config& config)
      : Module(config.initializer_range),
        features((config.hidden_size * config.mlp_ratio * 2 / 3 + 7) / 8 * 8),
        gate_proj(linear(config.hidden_size, features, /*bias=*/true)),
        up_proj(linear(config.hidden_size, features, /*bias=*/true)),
        down_proj(linear(features, config.hidden_size, /*bias=*/true)) {}

  Tensor forward(const Tensor& hidden_states) {
    return down_proj(gated_activation("silu", gate_proj(hidden_states), up_proj(hidden_states)));
  }

  int64_t features;
  TP_COLWISE nn::Linear gate_proj;
  TP_COLWISE nn::Linear up_proj;
  TP_ROWWISE nn::Linear down_proj;
};

/// Drops a residual branch per sample (Huang et al., Deep Networks with Stochastic Depth).
class Dinov2DropPathImpl : public Module {
 public:
  explicit Dinov2DropPathImpl(double drop_prob) : dropout(nn::Dropout(drop_prob)) {}

  Tensor forward(const Tensor& hidden_states) {
    return hidden_states * dropout(at::ones({hidden_states.size(0), 1, 1}, hidden_states.options()));
  }

  nn::Dropout dropout;
};

class FSDP_UNIT Dinov2LayerImpl : public Module {
 public:
  explicit Dinov2LayerImpl(const Dinov2Config& config)
      : norm1(LayerNorm(config.hidden_size, config.layer_norm_eps)),
        attention(vit::ViTAttention(config)),
        layer_scale1(Dinov2LayerScale(config.hidden_size, config.layerscale_value)),
        norm2(LayerNorm(config.hidden_size, config.layer_norm_eps)),
        layer_scale2(Dinov2LayerScale(config.hidden_size, config.layerscale_value)) {
    if (config.use_swiglu_ffn)
      mlp = Dinov2SwiGLUFFN(config);
    else
      mlp = Dinov2MLP(config);
    if (config.drop_path_rate > 0.0) drop_path = Dinov2DropPath(config.drop_path_rate);
  }

  /// A residual branch, which may be dropped.
  Tensor drop(const Tensor& added) { return drop_path ? drop_path(added) : added; }

  Tensor forward(const Tensor& hidden_states) {
    const Tensor attended = drop(layer_scale1(attention(norm1(hidden_states)))) + hidden_states;
    return drop(layer_scale2(mlp(norm2(attended)))) + attended;
  }

  LayerNorm norm1;
  vit::ViTAttention attention;
  Dinov2LayerScale layer_scale1;
  LayerNorm norm2;
  OneOf<Dinov2SwiGLUFFN, Dinov2MLP> mlp{nullptr};
  Dinov2LayerScale layer_scale2;
  Dinov2DropPath drop_path{nullptr};
};

/// Holds the layers; Dinov2Model runs them.
class Dinov2EncoderImpl : public Module {
 public:
  explicit Dinov2EncoderImpl(const Dinov2Config& config) : layer(ModuleListOf<Dinov2Layer>()) {
    for (int64_t i = 0; i < config.num_hidden_layers; ++i) layer->push_back(Dinov2Layer(config));
  }

  PP_SPLIT ModuleListOf<Dinov2Layer> layer;
};

class Dinov2ModelImpl : public Module {
 public:
  explicit Dinov2ModelImpl(const Dinov2Config& config)
      : embeddings(Dinov2Embeddings(config)),
        encoder(Dinov2Encoder(config)),
        layernorm(LayerNorm(config.hidden_size, config.layer_norm_eps)) {}

  Tensor forward(const Tensor& pixel_values) {
    Tensor hidden_states = embeddings(pixel_values);
    for (auto& layer : *encoder->layer) hidden_states = layer(hidden_states);
    return layernorm(hidden_states);
  }

  PP_FIRST Dinov2Embeddings embeddings;
  Dinov2Encoder encoder;
  PP_LAST LayerNorm layernorm;
};

struct MODEL_ENTRY("image-classification") FSDP_UNIT Dinov2ForImageClassificationImpl
    : vit::ViTForImageClassificationImpl {
  explicit Dinov2ForImageClassificationImpl(const Dinov2Config& config) : ViTForImageClassificationImpl(config) {
    classifier = remake(classifier, linear(2 * config.hidden_size, config.num_labels, /*bias=*/true));
  }

  /// The class token's features and the mean over the patches.
  Tensor features(const Tensor& hidden_states) {
    return torch::cat({hidden_states.select(1, 0), hidden_states.slice(1, 1).mean(1)}, -1);
  }
};

}  // namespace modular::dinov2
