// A config with two others inside: their fields are visited under their names, and the plan says in which config a
// field is.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaTextConfig : Config {
  int64_t vocab_size = 16;
  int64_t size = 8;
};

struct AlphaVisionConfig : Config {
  int64_t size = 8;
  int64_t parts = 2;
};

struct AlphaConfig : Config {
  AlphaTextConfig text_config;
  AlphaVisionConfig vision_config;
  int64_t num_labels = 4;
};

/// Of either tower.
class FSDP_UNIT AlphaMLPImpl : public Module {
 public:
  AlphaMLPImpl(int64_t size, int64_t inner)
      : up(register_module("up", linear(size, inner, false))),
        down(register_module("down", linear(inner, size, false))) {}

  Tensor forward(const Tensor& x) { return down(torch::relu(up(x))); }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaMLP);

class AlphaTextImpl : public Module {
 public:
  explicit AlphaTextImpl(const AlphaTextConfig& config)
      : words(register_module("words", embedding(config.vocab_size, config.size, std::nullopt))),
        mlp(register_module("mlp", AlphaMLP(config.size, config.size))) {}

  Tensor forward(const Tensor& ids) { return mlp(words(ids)); }

  TP_VOCAB nn::Embedding words;
  AlphaMLP mlp;
};
TORCH_MODULE(AlphaText);

class AlphaVisionImpl : public Module {
 public:
  explicit AlphaVisionImpl(const AlphaVisionConfig& config)
      : config(config),
        patches(register_module("patches", patch_projection(3, config.size, 4, true))),
        fused(register_module("fused", linear(config.size, 3 * config.size, false))),
        mlp(register_module("mlp", AlphaMLP(config.size, config.size))) {}

  Tensor forward(const Tensor& images) {
    const auto parts = fused(patches(images).flatten(2).transpose(1, 2)).chunk(3, -1);
    return torch::relu(parts[0] * parts[1] * parts[2]);
  }

  AlphaVisionConfig config;
  nn::Conv2d patches;
  nn::Linear fused;
  AlphaMLP mlp;
};
TORCH_MODULE(AlphaVision);

class MODEL_ENTRY("image-classification") FSDP_UNIT AlphaForImageClassificationImpl : public Module {
 public:
  explicit AlphaForImageClassificationImpl(const AlphaConfig& config)
      : text(register_module("text", AlphaText(config.text_config))),
        vision(register_module("vision", AlphaVision(config.vision_config))),
        head(register_module("head", linear(config.vision_config.size, config.num_labels, true))) {}

  Outputs forward(const Batch& batch) {
    const Tensor x = vision->mlp(vision(batch.pixel_values)).mean(1) + text(batch.input_ids).mean(1);
    return {.logits = head(x), .loss_sum = {}, .token_count = {}, .carried = {}};
  }

  AlphaText text;
  AlphaVision vision;
  nn::Linear head;
};
TORCH_MODULE(AlphaForImageClassification);

}  // namespace modular::alpha
