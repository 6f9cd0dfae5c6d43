// LLaVA (Liu et al., 2023), as in Hugging Face transformers: a Llama that reads features of a CLIP vision tower instead
// of placeholder tokens.
#pragma once

#include <string_view>
#include <vector>

#include "modular/clip.h"
#include "modular/llama.h"

namespace modular::llava {
MODULAR_FAMILY(Llava, .title = "LLaVA");

/// Rejects an unsupported type of tower.
inline void llava_reject_other(std::string_view tower, std::string_view given, std::string_view supported,
                               std::string_view use) {
  if (given == supported) return;
  std::string message(tower);
  message.append(": model_type is ").append(given).append(", and only ").append(supported).append(" is supported ");
  throw ConfigError(message.append(use));
}

struct LlavaVisionConfig : clip::CLIPVisionConfig {
  std::string model_type = "clip_vision_model";

  void finish() {
    llava_reject_other("vision_config", model_type, "clip_vision_model", "as the vision tower");
    CLIPVisionConfig::finish();
  }
};

struct LlavaTextConfig : llama::LlamaConfig {
  std::string model_type = "llama";

  void finish() {
    llava_reject_other("text_config", model_type, "llama", "as the language model");
    LlamaConfig::finish();
  }
};

/// The default tower: the large CLIP for images of 336 x 336.
inline LlavaVisionConfig llava_tower() {
  LlavaVisionConfig tower;
  tower.hidden_size = 1024;
  tower.intermediate_size = 4096;
  tower.num_hidden_layers = 24;
  tower.num_attention_heads = 16;
  tower.image_size = 336;
  tower.patch_size = 14;
  tower.projection_dim = 768;
  return tower;
}

struct LlavaConfig : Config {
  LlavaVisionConfig vision_config = llava_tower();
  LlavaTextConfig text_config;
  int64_t image_token_index = 32000;  // placeholder token, one per image feature
  int64_t image_seq_length = 576;     // features per image, used by processors of Transformers
  std::string projector_hidden_act = "gelu";
  std::string vision_feature_select_strategy = "default";  // "full" keeps the class token's feature
  int64_t vision_feature_layer = -2;  // layer whose output is used: 0 for the embeddings, negative counts from the end
  bool multimodal_projector_bias = true;
  bool tie_word_embeddings = false;

  void finish() {
    vision_config.finish();
    text_config.finish();
    if (vision_feature_select_strategy != "default" && vision_feature_select_strategy != "full")
      throw ConfigError("vision_feature_select_strategy must be default or full");
    if (vision_feature_layer < -vision_config.num_hidden_layers - 1 ||
        vision_feature_layer > vision_config.num_hidden_layers)
      throw ConfigError("vision_feature_layer must be the index of one of vision_config's num_hidden_layers layers");
    tie_word_embeddings = tie_word_embeddings || text_config.tie_word_embeddings;
  }

  /// Names in checkpoints: current ones first, then those whose tower still had the prefix of its class.
  static std::vector<StoredAs> stored_as() {
    return {{"model.language_model.**", {"language_model.model.**"}},
            {"lm_head.weight", {"language_model.lm_head.weight"}},
            {"model.multi_modal_projector.**", {"multi_modal_projector.**"}},
            {"model.vision_tower.**", {"vision_tower.**"}},
            {"model.vision_tower.**", {"vision_tower.vision_model.**"}}};
  }
};

struct LlavaEncoderImpl : clip::CLIPEncoderImpl {
  /// Runs the first `count` layers on the embeddings.
  Tensor first_layers(int64_t count, const Tensor& embeddings, const AttentionMask& mask) {
    Tensor hidden_states = embeddings;
    for (int64_t i = 0; i < count; ++i) hidden_states = (*layers)[i](hidden_states, mask);
    return hidden_states;
  }
};

struct LlavaVisionModelImpl : clip::CLIPVisionModelImpl {
  /// Output of the first `count` layers for the images: [images, 1 + patches, hidden].
  Tensor run_first_layers(int64_t count, const Tensor& pixel_values) {
    const Tensor embedded = embed(pixel_values);
    return encoder->first_layers(count, embedded, whole_mask());
  }

  LlavaEncoder encoder;

 private:
  using CLIPVisionModelImpl::forward, CLIPVisionModelImpl::pooled;
};

struct LlavaTextModelImpl : llama::LlamaModelImpl {
 private:
  using LlamaModelImpl::forward;  // LlavaModel runs the layers
};

/// Projects image features into the space of token embeddings.
class LlavaMultiModalProjectorImpl : public Module {
 public:
  explicit LlavaMultiModalProjectorImpl(const LlavaConfig& config)
      : Module(config.text_config.initializer_range),
        hidden_act(config.projector_hidden_act),
        linear_1(
            linear(config.vision_config.hidden_size, config.text_config.hidden_size, config.multimodal_projector_bias)),
        linear_2(
            linear(config.text_config.hidden_size, config.text_config.hidden_size, config.multimodal_projector_bias)) {}

  Tensor forward(const Tensor& features) { return linear_2(activation(hidden_act, linear_1(features))); }

  std::string hidden_act;
  TP_COLWISE nn::Linear linear_1;
  TP_ROWWISE nn::Linear linear_2;
};

class LlavaModelImpl : public Module {
 public:
  explicit LlavaModelImpl(const LlavaConfig& config)
      : config(config),
        feature_layers(config.vision_feature_layer < 0
                           ? config.vision_config.num_hidden_layers + 1 + config.vision_feature_layer
                           : config.vision_feature_layer),
        vision_tower(LlavaVisionModel(config.vision_config)),
        multi_modal_projector(LlavaMultiModalProjector(config)),
        language_model(LlavaTextModel(config.text_config)) {}

  /// One feature per placeholder of an image: [images, features, hidden].
  Tensor image_features(const Tensor& pixel_values) {
    const Tensor seen = vision_tower->run_first_layers(feature_layers, pixel_values);
    return multi_modal_projector(config.vision_feature_select_strategy == "default" ? seen.slice(1, 1) : seen);
  }

  /// Embeddings of tokens and images: [batch, seq, hidden].
  Tensor embed(const Batch& batch) {
    const Tensor embedded = language_model->embed(batch.input_ids);
    if (!batch.pixel_values.defined()) return embedded;
    return with_images(embedded, batch.input_ids, config.image_token_index, image_features(batch.pixel_values));
  }

  Tensor forward(const Batch& batch) {
    Tensor hidden_states = embed(batch);
    const RotaryTables rotary_embeddings = language_model->rotary_positions(batch, hidden_states.scalar_type());
    const AttentionMask mask = language_model->attention_mask(batch);
    for (auto& layer : *language_model->layers) hidden_states = layer(hidden_states, rotary_embeddings, mask);
    return language_model->norm(hidden_states);
  }

  LlavaConfig config;
  int64_t feature_layers;
  PP_FIRST LlavaVisionModel vision_tower;
  PP_FIRST LlavaMultiModalProjector multi_modal_projector;
  LlavaTextModel language_model;
};

/// Predicts the next token of a text with images.
class MODEL_ENTRY("image-text-to-text") FSDP_UNIT LlavaForConditionalGenerationImpl : public Module {
 public:
  explicit LlavaForConditionalGenerationImpl(const LlavaConfig& config)
      : Module(config.text_config.initializer_range),
        config(config),
        model(LlavaModel(config)),
        lm_head(linear(config.text_config.hidden_size, config.text_config.vocab_size, /*bias=*/false)) {}

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = model(batch);
    return cross_entropy_outputs(lm_head(hidden_states), batch, next_tokens);
  }

  LlavaConfig config;
  LlavaModel model;
  PP_LAST TP_VOCAB TIED_TO(model->language_model->embed_tokens->weight) nn::Linear lm_head;
};

}  // namespace modular::llava
