// Modules that two configs share read a struct of sizes, which each config makes or a constructor lists: the plan and
// the ranges are of the configs' fields.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaSizes {
  int64_t size;
  int64_t inner;
};

struct AlphaTextConfig : Config {
  int64_t vocab_size = 16;
  int64_t size = 8;
  int64_t inner_size = 16;

  AlphaSizes sizes() const { return {size, inner_size}; }
};

struct AlphaConfig : Config {
  AlphaTextConfig text_config;
  int64_t image_size = 8;
  int64_t image_inner_size = 16;
  int64_t num_labels = 4;
};

class AlphaMLPImpl : public Module {
 public:
  explicit AlphaMLPImpl(const AlphaSizes& sizes)
      : up(register_module("up", linear(sizes.size, sizes.inner, false))),
        down(register_module("down", linear(sizes.inner, sizes.size, false))) {}

  Tensor forward(const Tensor& x) { return down(torch::relu(up(x))); }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaMLP);

/// Passes its sizes on.
class AlphaLayerImpl : public Module {
 public:
  explicit AlphaLayerImpl(const AlphaSizes& sizes)
      : sizes(sizes), mlp(register_module("mlp", AlphaMLP(this->sizes))) {}

  Tensor forward(const Tensor& x) { return x + mlp(x); }

  AlphaSizes sizes;
  AlphaMLP mlp;
};
TORCH_MODULE(AlphaLayer);

class MODEL_ENTRY("image-classification") FSDP_UNIT AlphaForImageClassificationImpl : public Module {
 public:
  explicit AlphaForImageClassificationImpl(const AlphaConfig& config)
      : words(register_module("words", embedding(config.text_config.vocab_size, config.text_config.size, std::nullopt))),
        text(register_module("text", AlphaLayer(config.text_config.sizes()))),
        patches(register_module("patches", patch_projection(3, config.image_size, 4, true))),
        image(register_module("image", AlphaLayer(AlphaSizes{config.image_size, config.image_inner_size}))),
        head(register_module("head", linear(config.image_size, config.num_labels, true))) {}

  Outputs forward(const Batch& batch) {
    const Tensor seen = image(patches(batch.pixel_values).flatten(2).transpose(1, 2)).mean(1);
    const Tensor read = text(words(batch.input_ids)).mean(1);
    return classification_outputs(head(seen + read), batch, std::nullopt);
  }

  TP_VOCAB nn::Embedding words;
  AlphaLayer text;
  nn::Conv2d patches;
  AlphaLayer image;
  nn::Linear head;
};
TORCH_MODULE(AlphaForImageClassification);

}  // namespace modular::alpha
