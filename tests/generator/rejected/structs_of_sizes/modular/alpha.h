// A count in a struct is known only if the struct is listed as a whole, and nothing changes it. A config that is made
// from another one by a constructor may have other numbers in fields of the same names.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaSizes {
  int64_t hidden;
  int64_t heads;
};

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t num_heads = 4;

  AlphaSizes listed() const { return {hidden_size, num_heads}; }
  AlphaSizes computed() const { return {hidden_size, num_heads > 2 ? num_heads : 2}; }
  AlphaSizes chosen() const {
    if (num_heads > 2) return {hidden_size, num_heads};
    return {num_heads, hidden_size};
  }
};

struct AlphaOtherConfig : Config {
  AlphaOtherConfig() = default;
  AlphaOtherConfig(const AlphaConfig& config) : num_heads(config.hidden_size) {}

  int64_t num_heads = 4;
};

class AlphaHeadsImpl : public Module {
 public:
  explicit AlphaHeadsImpl(const AlphaSizes& sizes)
      : up(register_module("up", linear(sizes.hidden, sizes.hidden, false))), num_heads(sizes.heads) {}

  TP_COLWISE nn::Linear up;
  TP_LOCAL int64_t num_heads;
};
TORCH_MODULE(AlphaHeads);

struct AlphaComputedHeadsImpl : AlphaHeadsImpl {};
struct AlphaChosenHeadsImpl : AlphaHeadsImpl {};

class AlphaChangedHeadsImpl : public Module {
 public:
  explicit AlphaChangedHeadsImpl(AlphaSizes sizes) {
    sizes.heads = sizes.hidden / 2;
    up = register_module("up", linear(sizes.hidden, sizes.hidden, false));
    num_heads = sizes.heads;
  }

  TP_COLWISE nn::Linear up{nullptr};
  TP_LOCAL int64_t num_heads;
};
TORCH_MODULE(AlphaChangedHeads);

class AlphaConvertedHeadsImpl : public Module {
 public:
  explicit AlphaConvertedHeadsImpl(const AlphaOtherConfig& config) : num_heads(config.num_heads) {}

  TP_LOCAL int64_t num_heads;
};
TORCH_MODULE(AlphaConvertedHeads);

class MODEL_ENTRY("image-classification") FSDP_UNIT AlphaForImageClassificationImpl : public Module {
 public:
  explicit AlphaForImageClassificationImpl(const AlphaConfig& config)
      : patches(register_module("patches", patch_projection(3, config.hidden_size, 4, true))),
        listed(register_module("listed", AlphaHeads(config.listed()))),
        computed(register_module("computed", AlphaComputedHeads(config.computed()))),
        chosen(register_module("chosen", AlphaChosenHeads(config.chosen()))),
        changed(register_module("changed", AlphaChangedHeads(config.listed()))),
        converted(register_module("converted", AlphaConvertedHeads(config))),
        head(register_module("head", linear(config.hidden_size, 2, true))) {}

  Outputs forward(const Batch& batch) {
    const Tensor seen = patches(batch.pixel_values).flatten(2).transpose(1, 2);
    return classification_outputs(head(seen.mean(1)), batch, std::nullopt);
  }

  nn::Conv2d patches;
  AlphaHeads listed;
  AlphaComputedHeads computed;
  AlphaChosenHeads chosen;
  AlphaChangedHeads changed;
  AlphaConvertedHeads converted;
  nn::Linear head;
};
TORCH_MODULE(AlphaForImageClassification);

}  // namespace modular::alpha
