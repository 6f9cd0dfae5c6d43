// Weights and biases of the contract's layers, read where their stage or unit does not hold them.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t vocab_size = 16;
  int64_t hidden_size = 8;
  int64_t num_layers = 2;
};

class FSDP_UNIT AlphaLayerImpl : public Module {
 public:
  explicit AlphaLayerImpl(const AlphaConfig& config)
      : mix(register_module("mix", linear(config.hidden_size, config.hidden_size, false))),
        norm(register_module("norm", LayerNorm(config.hidden_size, 1e-5))) {}

  Tensor forward(const Tensor& x) { return norm(x + mix(x)); }

  nn::Linear mix;
  LayerNorm norm;
};
TORCH_MODULE(AlphaLayer);

class MODEL_ENTRY("masked-lm") FSDP_UNIT AlphaForMaskedLMImpl : public Module {
 public:
  explicit AlphaForMaskedLMImpl(const AlphaConfig& config)
      : embed(register_module("embed", embedding(config.vocab_size, config.hidden_size, std::nullopt))),
        layers(register_module("layers", ModuleListOf<AlphaLayer>())),
        last(register_module("last", LayerNorm(config.hidden_size, 1e-5))),
        head(register_module("head", linear(config.hidden_size, config.vocab_size, false))) {
    for (int64_t i = 0; i < config.num_layers; ++i) layers->push_back(AlphaLayer(config));
  }

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = embed(batch.input_ids) * last->weight.view({1, 1, -1});
    for (auto& layer : *layers) hidden_states = layer(hidden_states) + layer->norm->bias.view({1, 1, -1});
    return cross_entropy_outputs(head(last(hidden_states)), batch, same_labels);
  }

  PP_FIRST nn::Embedding embed;
  PP_SPLIT ModuleListOf<AlphaLayer> layers;
  PP_LAST LayerNorm last;
  PP_LAST nn::Linear head;
};
TORCH_MODULE(AlphaForMaskedLM);

}  // namespace modular::alpha
