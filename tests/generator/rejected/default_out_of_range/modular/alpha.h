// A default that the field's uses do not allow: the runtime would blame each config.json for it.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t vocab_size = 16;
  int64_t hidden_size = 8;
  int64_t type_vocab_size = 0;
  int64_t depth = 5000;
  int64_t period{-1};
  int64_t other_period = 0;

  bool is_special(int64_t layer) const {
    return layer % period == 0 && (other_period == 0 || layer % other_period == 0);
  }
};

class FSDP_UNIT AlphaLayerImpl : public Module {
 public:
  AlphaLayerImpl(const AlphaConfig& config, int64_t layer)
      : up(linear(config.hidden_size, config.hidden_size, /*bias=*/false)), special(config.is_special(layer)) {}

  Tensor forward(const Tensor& x) { return special ? x : x + up(x); }

  nn::Linear up;
  bool special;
};

class MODEL_ENTRY("causal-lm") FSDP_UNIT AlphaForCausalLMImpl : public Module {
 public:
  explicit AlphaForCausalLMImpl(const AlphaConfig& config)
      : embed(embedding(config.vocab_size, config.hidden_size, std::nullopt)),
        types(embedding(config.type_vocab_size, config.hidden_size, std::nullopt)),
        layers(ModuleListOf<AlphaLayer>()),
        head(linear(config.hidden_size, config.vocab_size, /*bias=*/false)) {
    for (int64_t layer = 0; layer < config.depth; ++layer) layers->push_back(AlphaLayer(config, layer));
  }

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = embed(batch.input_ids) + types(batch.token_type_ids);
    for (auto& layer : *layers) hidden_states = layer(hidden_states);
    return cross_entropy_outputs(head(hidden_states), batch, next_tokens);
  }

  PP_FIRST nn::Embedding embed;
  PP_FIRST nn::Embedding types;
  PP_SPLIT ModuleListOf<AlphaLayer> layers;
  PP_LAST nn::Linear head;
};

}  // namespace modular::alpha
