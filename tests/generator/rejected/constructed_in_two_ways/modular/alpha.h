// Modules and parameters that the branches of a constructor make in different ways: what one branch says about counts
// and numbers of dimensions is not known of the other.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t num_layers = 2;
  int64_t num_heads = 4;
  int64_t num_wide_heads = 6;
  bool is_wide = false;
};

class AlphaMixerImpl : public Module {
 public:
  AlphaMixerImpl(const AlphaConfig& config, int64_t heads)
      : num_heads(heads),
        up(register_module("up", linear(config.hidden_size, heads * 2, false))),
        down(register_module("down", linear(heads * 2, config.hidden_size, false))) {}
  Tensor forward(const Tensor& x) {
    return down(up(x).view({x.size(0), x.size(1), num_heads, 2}).softmax(-1).flatten(2));
  }
  TP_LOCAL int64_t num_heads;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaMixer);

class AlphaScaleImpl : public Module {
 public:
  explicit AlphaScaleImpl(const AlphaConfig& config)
      : up(register_module("up", linear(config.hidden_size, config.hidden_size, false))) {
    if (config.is_wide)
      scale = register_parameter("scale", torch::ones({config.hidden_size, 1}));
    else
      scale = register_parameter("scale", torch::ones({1}));
  }
  Tensor forward(const Tensor& x) { return up(x).transpose(1, 2) * scale; }
  TP_COLWISE nn::Linear up;
  Tensor scale;
};
TORCH_MODULE(AlphaScale);

class MODEL_ENTRY("causal-lm") AlphaForCausalLMImpl : public Module {
 public:
  explicit AlphaForCausalLMImpl(const AlphaConfig& config)
      : embed(register_module("embed", embedding(16, config.hidden_size, std::nullopt))),
        layers(register_module("layers", ModuleListOf<AlphaMixer>())),
        scale(register_module("scale", AlphaScale(config))) {
    for (int64_t i = 0; i < config.num_layers; ++i) {
      if (i % 2 == 0)
        layers->push_back(AlphaMixer(config, config.num_heads));
      else
        layers->push_back(AlphaMixer(config, config.num_wide_heads));
    }
  }
  Outputs forward(const Batch& batch) {
    Tensor x = embed(batch.input_ids);
    for (auto& layer : *layers) x = x + layer(x);
    const Tensor scaled = scale(x);
    return {.logits = x, .loss_sum = {}, .token_count = {}, .carried = {}};
  }
  nn::Embedding embed;
  ModuleListOf<AlphaMixer> layers;
  AlphaScale scale;
};
TORCH_MODULE(AlphaForCausalLM);

}  // namespace modular::alpha
