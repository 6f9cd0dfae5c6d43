// A size that is read before the loop over layers: layers may change it, so that later stages would read another one.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t num_layers = 2;
};

class AlphaLayerImpl : public Module {
 public:
  explicit AlphaLayerImpl(const AlphaConfig& config)
      : mix(register_module("mix", linear(config.hidden_size, config.hidden_size, false))) {}
  Tensor forward(const Tensor& x) { return torch::cat({mix(x), x.slice(1, 0, 1)}, 1); }
  nn::Linear mix;
};
TORCH_MODULE(AlphaLayer);

class MODEL_ENTRY("causal-lm") AlphaForCausalLMImpl : public Module {
 public:
  explicit AlphaForCausalLMImpl(const AlphaConfig& config)
      : embed(register_module("embed", embedding(16, config.hidden_size, std::nullopt))),
        layers(register_module("layers", ModuleListOf<AlphaLayer>())) {
    for (int64_t i = 0; i < config.num_layers; ++i) layers->push_back(AlphaLayer(config));
  }
  Outputs forward(const Batch& batch) {
    Tensor x = embed(batch.input_ids);
    const auto type = x.scalar_type();
    const int64_t length = x.size(1);
    for (auto& layer : *layers) x = layer(x);
    return {.logits = x.to(type) / static_cast<double>(length), .loss_sum = {}, .token_count = {}, .carried = {}};
  }
  PP_FIRST nn::Embedding embed;
  PP_SPLIT ModuleListOf<AlphaLayer> layers;
};
TORCH_MODULE(AlphaForCausalLM);

}  // namespace modular::alpha
