// Dropout layers whose calls several pipeline stages would count from the first, and one that each layer has.
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
        dropout(register_module("dropout", nn::Dropout(0.1))) {}

  Tensor forward(const Tensor& x) { return dropout(x + dropout(mix(x))); }

  nn::Linear mix;
  nn::Dropout dropout;
};
TORCH_MODULE(AlphaLayer);

class MODEL_ENTRY("masked-lm") FSDP_UNIT AlphaForMaskedLMImpl : public Module {
 public:
  explicit AlphaForMaskedLMImpl(const AlphaConfig& config)
      : embed(register_module("embed", embedding(config.vocab_size, config.hidden_size, std::nullopt))),
        layers(register_module("layers", ModuleListOf<AlphaLayer>())),
        head(register_module("head", linear(config.hidden_size, config.vocab_size, false))),
        at_ends(register_module("at_ends", nn::Dropout(0.1))),
        in_loop(register_module("in_loop", nn::Dropout(0.1))),
        last(register_module("last", nn::Dropout(0.1))) {
    for (int64_t i = 0; i < config.num_layers; ++i) layers->push_back(AlphaLayer(config));
  }

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = at_ends(embed(batch.input_ids));
    for (auto& layer : *layers) hidden_states = in_loop(layer(hidden_states));
    hidden_states = last(at_ends(last(hidden_states)));
    return cross_entropy_outputs(head(hidden_states), batch, same_labels);
  }

  PP_FIRST nn::Embedding embed;
  PP_SPLIT ModuleListOf<AlphaLayer> layers;
  PP_LAST nn::Linear head;
  nn::Dropout at_ends;
  nn::Dropout in_loop;
  nn::Dropout last;
};
TORCH_MODULE(AlphaForMaskedLM);

}  // namespace modular::alpha
