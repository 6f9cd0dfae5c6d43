// A pipeline of two stages, cut between two towers: the first makes one value in several statements, the last reads it,
// and both look up one table, to which the output may be tied.
#pragma once

#include "modular/tiny.h"

namespace modular::two_towers {
MODULAR_FAMILY(TwoTowers);

struct TwoTowersConfig : tiny::TinyConfig {
  bool tie_word_embeddings = false;
};

class TwoTowersTowerImpl : public Module {
 public:
  explicit TwoTowersTowerImpl(const TwoTowersConfig& config)
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

  ModuleListOf<tiny::TinyLayer> layers;
  tiny::TinyNorm norm;
};
TORCH_MODULE(TwoTowersTower);

class TwoTowersModelImpl : public Module {
 public:
  explicit TwoTowersModelImpl(const TwoTowersConfig& config)
      : config(config),
        table(register_module("table", embedding(config.vocab_size, config.hidden_size, std::nullopt))),
        left(register_module("left", TwoTowersTower(config))),
        bridge(register_module("bridge", linear(config.hidden_size, config.hidden_size, /*bias=*/true))),
        right(register_module("right", TwoTowersTower(config))),
        gate(register_parameter("gate", torch::empty({config.hidden_size}))) {}

  /// What the first tower makes: [batch, seq, hidden].
  Tensor read(const Batch& batch, const AttentionMask& mask) { return bridge(left(table(batch.input_ids), mask)); }

  Tensor forward(const Batch& batch) {
    const AttentionMask mask = causal_mask(batch.attention_mask, /*window=*/0);
    const Tensor states = read(batch, mask);
    Tensor crossing = states;
    crossing = crossing + bridge(states);
    const Tensor again = table(batch.input_ids) * gate;
    return right(again + crossing, mask);
  }

  void reset_parameters() override {
    init::linear_and_embedding_(*this, config.initializer_range);
    init::ones_(gate);
  }

  TwoTowersConfig config;
  PP_ALL TP_VOCAB nn::Embedding table;
  PP_FIRST TwoTowersTower left;
  PP_FIRST nn::Linear bridge;
  PP_LAST TwoTowersTower right;
  PP_LAST Tensor gate;  // [hidden]
};
TORCH_MODULE(TwoTowersModel);

class MODEL_ENTRY("causal-lm") FSDP_UNIT TwoTowersForCausalLMImpl : public tiny::TinyForCausalLMImpl {
 public:
  explicit TwoTowersForCausalLMImpl(const TwoTowersConfig& config) : TinyForCausalLMImpl(config) {
    model = register_module("model", TwoTowersModel(config));
  }

  TwoTowersModel model{nullptr};
  PP_LAST TP_VOCAB TIED_TO(model->table->weight) nn::Linear lm_head{nullptr};
};
TORCH_MODULE(TwoTowersForCausalLM);

}  // namespace modular::two_towers
