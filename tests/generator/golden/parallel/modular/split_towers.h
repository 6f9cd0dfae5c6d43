// A pipeline of any number of stages over two towers: each is cut between its layers, and those of the second read what
// the first one made, which several statements make of its last layer's result.
#pragma once

#include "modular/tiny.h"

namespace modular::split_towers {
MODULAR_FAMILY(SplitTowers);

struct SplitTowersConfig : tiny::TinyConfig {
  bool tie_word_embeddings = false;
};

class SplitTowersTowerImpl : public Module {
 public:
  explicit SplitTowersTowerImpl(const SplitTowersConfig& config)
      : layers(register_module("layers", ModuleListOf<tiny::TinyLayer>())),
        norm(register_module("norm", tiny::TinyNorm(config.hidden_size))) {
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
      layers->push_back(tiny::TinyLayer(config, layer));
  }

  Tensor forward(const Tensor& embedded, const AttentionMask& mask) {
    Tensor hidden_states = embedded;
    for (auto& layer : *layers) hidden_states = layer(hidden_states, mask);
    return norm(hidden_states);
  }

  PP_SPLIT ModuleListOf<tiny::TinyLayer> layers;
  PP_LAST tiny::TinyNorm norm;
};
TORCH_MODULE(SplitTowersTower);

class SplitTowersModelImpl : public Module {
 public:
  explicit SplitTowersModelImpl(const SplitTowersConfig& config)
      : config(config),
        table(register_module("table", embedding(config.vocab_size, config.hidden_size, std::nullopt))),
        left(register_module("left", SplitTowersTower(config))),
        bridge(register_module("bridge", linear(config.hidden_size, config.hidden_size, /*bias=*/true))),
        right(register_module("right", SplitTowersTower(config))),
        gate(register_parameter("gate", torch::empty({config.hidden_size}))) {}

  /// What the first tower makes: [batch, seq, hidden].
  Tensor read(const Batch& batch, const AttentionMask& mask) {
    const Tensor seen = left(table(batch.input_ids), mask);
    return bridge(seen);
  }

  Tensor forward(const Batch& batch) {
    const AttentionMask mask = causal_mask(batch.attention_mask, /*window=*/0);
    const Tensor states = read(batch, mask);
    Tensor crossing = states;
    crossing = crossing + bridge(states);
    Tensor hidden_states = table(batch.input_ids);
    for (auto& layer : *right->layers) hidden_states = layer(hidden_states + crossing, mask);
    return right->norm(hidden_states) * gate;
  }

  void reset_parameters() override {
    init::linear_and_embedding_(*this, config.initializer_range);
    init::ones_(gate);
  }

  SplitTowersConfig config;
  PP_ALL TP_VOCAB nn::Embedding table;
  PP_FIRST SplitTowersTower left;
  PP_FIRST nn::Linear bridge;
  PP_LAST SplitTowersTower right;
  PP_LAST Tensor gate;  // [hidden]
};
TORCH_MODULE(SplitTowersModel);

class MODEL_ENTRY("causal-lm") FSDP_UNIT SplitTowersForCausalLMImpl : public tiny::TinyForCausalLMImpl {
 public:
  explicit SplitTowersForCausalLMImpl(const SplitTowersConfig& config) : TinyForCausalLMImpl(config) {
    model = register_module("model", SplitTowersModel(config));
  }

  SplitTowersModel model{nullptr};
  PP_LAST TP_VOCAB TIED_TO(model->table->weight) nn::Linear lm_head{nullptr};
};
TORCH_MODULE(SplitTowersForCausalLM);

}  // namespace modular::split_towers
