// A pipeline of any number of stages over two towers: each is cut between its layers, and those of the second read what
// the first one made, which several statements make of its last layer's result.
#pragma once

#include "modular/two_towers.h"

namespace modular::split_towers {
MODULAR_FAMILY(SplitTowers);

class SplitTowersTowerImpl : public two_towers::TwoTowersTowerImpl {
 public:
  using TwoTowersTowerImpl::TwoTowersTowerImpl;

  PP_SPLIT ModuleListOf<tiny::TinyLayer> layers{nullptr};
  PP_LAST tiny::TinyNorm norm{nullptr};
};
TORCH_MODULE(SplitTowersTower);

class SplitTowersModelImpl : public two_towers::TwoTowersModelImpl {
 public:
  using TwoTowersModelImpl::TwoTowersModelImpl;

  Tensor read(const Batch& batch, const Tensor& mask) {
    const Tensor seen = left(table(batch.input_ids), mask);
    return bridge(seen);
  }

  Tensor forward(const Batch& batch) {
    const Tensor mask =
        causal_mask(batch.attention_mask, batch.input_ids.size(1), /*window=*/0, batch.input_ids.device());
    const Tensor states = read(batch, mask);
    Tensor crossing = states;
    crossing = crossing + bridge(states);
    Tensor hidden_states = table(batch.input_ids);
    for (auto& layer : *right->layers) hidden_states = layer(hidden_states + crossing, mask);
    return right->norm(hidden_states) * gate;
  }
};
TORCH_MODULE(SplitTowersModel);

using SplitTowersForCausalLM MODEL_ENTRY("causal-lm") = two_towers::TwoTowersForCausalLM;

}  // namespace modular::split_towers
