// SigLIP (Zhai et al., 2023), as in Hugging Face transformers: CLIP with a sigmoid loss that classifies each pair on
// its own.
#pragma once

#include "modular/clip.h"

namespace modular::siglip {
MODULAR_FAMILY(Siglip, .title = "SigLIP");

struct SiglipTextConfig : clip::CLIPTextConfig {
  int64_t vocab_size = 32000;
  int64_t hidden_size = 768;
  int64_t intermediate_size = 3072;
  int64_t num_attention_heads = 12;
  int64_t max_position_embeddings = 64;
  std::string hidden_act = "gelu_pytorch_tanh";
  double layer_norm_eps = 1e-6;
  std::optional<int64_t> projection_size;  // hidden_size when not given
  static constexpr double initializer_factor = 1.0;

  void finish() {
    CLIPTextConfig::finish();
    if (!projection_size) projection_size = hidden_size;
  }

 private:
  using CLIPTextConfig::initializer_range, CLIPTextConfig::projection_dim;
};

struct SiglipVisionConfig : clip::CLIPVisionConfig {
  int64_t patch_size = 16;
  std::string hidden_act = "gelu_pytorch_tanh";
  double layer_norm_eps = 1e-6;
  bool vision_use_head = true;
  static constexpr double initializer_factor = 1.0;

 private:
  using CLIPVisionConfig::initializer_range, CLIPVisionConfig::projection_dim;
};

struct SiglipConfig : clip::CLIPConfig {
  SiglipTextConfig text_config;
  SiglipVisionConfig vision_config;

  void finish() {
    CLIPConfig::finish();
    if (!vision_config.vision_use_head)
      throw ConfigError(
          "vision_config: vision_use_head is false: set it to true, because the head computes the images' features");
    if (text_config.projection_size != vision_config.hidden_size)
      throw ConfigError("text_config: projection_size must be the hidden_size of vision_config");
  }

 private:
  using CLIPConfig::logit_scale_init_value, CLIPConfig::projection_dim;
};

/// LeCun initialization with the original's constant, which belongs to a normal distribution truncated at two standard
/// deviations.
inline void siglip_lecun_normal(const Tensor& weight) { init::fan_in_normal_(weight, 1.0 / 0.87962566103423978); }

struct SiglipVisionEmbeddingsImpl : clip::CLIPVisionEmbeddingsImpl {
  explicit SiglipVisionEmbeddingsImpl(const SiglipVisionConfig& config) : CLIPVisionEmbeddingsImpl(config) {
    patch_embedding =
        remake(patch_embedding, patch_projection(config.num_channels, config.hidden_size, config.patch_size,
                                                 /*bias=*/true));
    position_embedding =
        remake(position_embedding, embedding(patches_per_side * patches_per_side, config.hidden_size, std::nullopt));
  }

  /// [images, patches, hidden]
  Tensor forward(const Tensor& pixel_values) {
    check_images(pixel_values, config.num_channels, config.image_size);
    const Tensor patches =
        patch_embedding(pixel_values.to(patch_embedding->weight.scalar_type())).flatten(2).transpose(1, 2);
    return patches + position_embedding->weight;
  }

  void reset_parameters() override {
    siglip_lecun_normal(patch_embedding->weight);
    init::zeros_(patch_embedding->bias);
    init::fan_in_normal_(position_embedding->weight);
  }

 private:
  using CLIPVisionEmbeddingsImpl::class_embedding;
};

struct SiglipTextEmbeddingsImpl : clip::CLIPTextEmbeddingsImpl {
  void reset_parameters() override {
    init::fan_in_normal_(token_embedding->weight);
    init::fan_in_normal_(position_embedding->weight);
  }
};

struct SiglipAttentionImpl : clip::CLIPAttentionImpl {
  void reset_parameters() override {
    for (const auto& layer : {q_proj, k_proj, v_proj, out_proj}) {
      init::xavier_uniform_(layer->weight);
      init::zeros_(layer->bias);
    }
  }

 private:
  using CLIPAttentionImpl::out_std;
};

struct SiglipMLPImpl : clip::CLIPMLPImpl {
  void reset_parameters() override {
    for (const auto& layer : {fc1, fc2}) {
      init::xavier_uniform_(layer->weight);
      init::normal_(layer->bias, 0.0, 1e-6);
    }
  }

 private:
  using CLIPMLPImpl::out_std;
};

/// Attention of one query over all positions, with the parameters of torch's MultiheadAttention.
class SiglipPoolingAttentionImpl : public Module {
 public:
  SiglipPoolingAttentionImpl(int64_t hidden_size, int64_t num_attention_heads)
      : hidden_size(hidden_size),
        num_attention_heads(num_attention_heads),
        head_dim(hidden_size / num_attention_heads),
        scaling(1.0 / std::sqrt(static_cast<double>(head_dim))),
        in_proj_weight(register_parameter("in_proj_weight", torch::empty({3 * hidden_size, hidden_size}))),
        in_proj_bias(register_parameter("in_proj_bias", torch::empty({3 * hidden_size}))),
        out_proj(linear(hidden_size, hidden_size, /*bias=*/true)) {}

  /// query [batch, 1, hidden], hidden_states [batch, seq, hidden]
  Tensor forward(const Tensor& query, const Tensor& hidden_states) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1);
    const auto weights = in_proj_weight.chunk(3, 0);
    const auto biases = in_proj_bias.chunk(3, 0);
    const Tensor queries = at::linear(query, weights[0], biases[0])
                               .view({query.size(0), query.size(1), num_attention_heads, head_dim})
                               .transpose(1, 2);
    const Tensor keys = at::linear(hidden_states, weights[1], biases[1])
                            .view({batch, seq, num_attention_heads, head_dim})
                            .transpose(1, 2);
    const Tensor values = at::linear(hidden_states, weights[2], biases[2])
                              .view({batch, seq, num_attention_heads, head_dim})
                              .transpose(1, 2);
    const Tensor attention_weights = (queries.matmul(keys.transpose(2, 3)) * scaling).softmax(-1);
    return out_proj(attention_weights.matmul(values).transpose(1, 2).flatten(2));
  }

  void reset_parameters() override {
    init::xavier_uniform_(in_proj_weight);
    init::zeros_(in_proj_bias);
    siglip_lecun_normal(out_proj->weight);
    init::zeros_(out_proj->bias);
  }

  int64_t hidden_size;
  TP_LOCAL int64_t num_attention_heads;
  int64_t head_dim;
  double scaling;
  // [3 * hidden, hidden] and [3 * hidden]: query, key and value
  TP_SHARD(0, hidden_size, hidden_size, hidden_size)
  Tensor in_proj_weight;
  TP_SHARD(0, hidden_size, hidden_size, hidden_size)
  Tensor in_proj_bias;
  TP_ROWWISE nn::Linear out_proj;
};

/// Image feature from a learned query's attention.
class SiglipMultiheadAttentionPoolingHeadImpl : public Module {
 public:
  explicit SiglipMultiheadAttentionPoolingHeadImpl(const SiglipVisionConfig& config)
      : probe(register_parameter("probe", torch::empty({1, 1, config.hidden_size}))),
        attention(SiglipPoolingAttention(config.hidden_size, config.num_attention_heads)),
        layernorm(LayerNorm(config.hidden_size, config.layer_norm_eps)),
        mlp(SiglipMLP(config.tower())) {}

  Tensor forward(const Tensor& hidden_states) {
    const Tensor attended = attention(probe.expand({hidden_states.size(0), 1, -1}), hidden_states);
    return (attended + mlp(layernorm(attended))).select(1, 0);
  }

  void reset_parameters() override { init::xavier_uniform_(probe); }

  Tensor probe;  // [1, 1, hidden]
  SiglipPoolingAttention attention;
  LayerNorm layernorm;
  SiglipMLP mlp;
};

struct SiglipTextModelImpl : clip::CLIPTextModelImpl {
  explicit SiglipTextModelImpl(const SiglipTextConfig& config) : CLIPTextModelImpl(config) {
    head = linear(config.hidden_size, *config.projection_size, /*bias=*/true);
  }

  AttentionMask attention_mask(const Batch& batch) { return bidirectional_mask(batch); }

  /// From the last position, padding or not: [batch, projection_size].
  Tensor pooled(const Tensor& hidden_states, const Batch&) { return head(hidden_states.select(1, -1)); }

  void reset_parameters() override {
    siglip_lecun_normal(head->weight);
    init::zeros_(head->bias);
  }

  PP_LAST nn::Linear head{nullptr};

 private:
  using CLIPTextModelImpl::ends;
};

struct SiglipVisionModelImpl : clip::CLIPVisionModelImpl {
  explicit SiglipVisionModelImpl(const SiglipVisionConfig& config) : CLIPVisionModelImpl(config) {
    head = SiglipMultiheadAttentionPoolingHead(config);
  }

  Tensor embed(const Tensor& pixel_values) { return embeddings(pixel_values); }

  Tensor forward(const Tensor& pixel_values) {
    const Tensor hidden_states = CLIPVisionModelImpl::forward(pixel_values);
    return post_layernorm(hidden_states);
  }

  Tensor pooled(const Tensor& hidden_states) { return head(hidden_states); }

  PP_LAST SiglipMultiheadAttentionPoolingHead head{nullptr};

 private:
  using CLIPVisionModelImpl::pre_layrnorm;
};

struct MODEL_ENTRY("contrastive-pairs") FSDP_UNIT SiglipModelImpl : clip::CLIPModelImpl {
  explicit SiglipModelImpl(const SiglipConfig& config) : CLIPModelImpl(config) {
    logit_scale = remake(logit_scale, torch::empty({1}));
    logit_bias = register_parameter("logit_bias", torch::empty({1}));
  }

  Tensor image_features(const Batch& batch) {
    const Tensor hidden_states = vision_model(batch.pixel_values);
    return unit_rows(vision_model->pooled(hidden_states));
  }
  Tensor text_features(const Batch& batch) {
    const Tensor pooled = text_model(batch);
    return unit_rows(pooled);
  }

  Tensor scores(const Tensor& rows, const Tensor& others) { return CLIPModelImpl::scores(rows, others) + logit_bias; }

  Tensor loss(const Tensor& images, const Tensor& texts, const Tensor& targets) {
    return sigmoid_pair_loss(scores(texts, images), targets);
  }

  void reset_parameters() override {
    init::zeros_(logit_scale);
    init::zeros_(logit_bias);
  }

  PP_LAST Tensor logit_bias;  // [1]

 private:
  using CLIPModelImpl::text_projection, CLIPModelImpl::visual_projection;
};

struct MODEL_ENTRY("image-classification") FSDP_UNIT SiglipForImageClassificationImpl
    : clip::CLIPForImageClassificationImpl {
  Tensor features(const Tensor& hidden_states) { return hidden_states.mean(1); }
};

}  // namespace modular::siglip
