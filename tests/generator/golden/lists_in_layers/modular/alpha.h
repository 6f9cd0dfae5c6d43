// Layers with lists of their own, which no pipeline divides; split sizes that are numbers; parameters in pairs.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t vocab_size = 16;
  int64_t hidden_size = 8;
  int64_t num_experts = 3;
  int64_t num_hidden_layers = 2;
};

class AlphaExpertImpl : public Module {
 public:
  explicit AlphaExpertImpl(const AlphaConfig& config)
      : up(linear(config.hidden_size, 8, /*bias=*/true)), down(linear(8, config.hidden_size, /*bias=*/false)) {}

  Tensor forward(const Tensor& x) { return down(up(x).relu()); }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};

class FSDP_UNIT AlphaLayerImpl : public Module {
 public:
  explicit AlphaLayerImpl(const AlphaConfig& config)
      : experts(ModuleListOf<AlphaExpert>()),
        norm(LayerNorm(config.hidden_size, 1e-6)),
        gain(register_parameter("gain", torch::ones({config.hidden_size}))) {
    for (int64_t expert = 0; expert < config.num_experts; ++expert) experts->push_back(AlphaExpert(config));
  }

  Tensor forward(const Tensor& x) {
    const auto [scale, read] = std::make_pair(gain, norm(x));
    Tensor sum = x * scale;
    for (auto& expert : *experts) sum = sum + expert(read);
    return sum;
  }

  ModuleListOf<AlphaExpert> experts;
  LayerNorm norm;
  Tensor gain;
};

class AlphaModelImpl : public Module {
 public:
  explicit AlphaModelImpl(const AlphaConfig& config)
      : embed(embedding(config.vocab_size, config.hidden_size, std::nullopt)),
        layers(ModuleListOf<AlphaLayer>()),
        norm(LayerNorm(config.hidden_size, 1e-6)) {
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) layers->push_back(AlphaLayer(config));
  }

  Tensor forward(const Batch& batch) {
    Tensor hidden_states = embed(batch.input_ids);
    for (auto& layer : *layers) hidden_states = layer(hidden_states);
    return norm(hidden_states);
  }

  PP_FIRST TP_VOCAB nn::Embedding embed;
  PP_SPLIT ModuleListOf<AlphaLayer> layers;
  PP_LAST LayerNorm norm;
};

class MODEL_ENTRY("causal-lm") FSDP_UNIT AlphaForCausalLMImpl : public Module {
 public:
  explicit AlphaForCausalLMImpl(const AlphaConfig& config)
      : model(AlphaModel(config)), head(linear(config.hidden_size, config.vocab_size, /*bias=*/false)) {}

  Outputs forward(const Batch& batch) {
    const Tensor hidden_states = model(batch);
    return cross_entropy_outputs(head(hidden_states), batch, next_tokens);
  }

  AlphaModel model;
  PP_LAST TP_VOCAB nn::Linear head;
};

}  // namespace modular::alpha
