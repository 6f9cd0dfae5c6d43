// The base of beta.h: two lists that loops fill.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t num_layers = 2;
};

/// One linear layer.
class AlphaLayerImpl : public Module {
 public:
  AlphaLayerImpl(const AlphaConfig& config, int64_t /*layer*/)
      : proj(register_module("proj", linear(config.hidden_size, config.hidden_size, /*bias=*/false))) {}

  Tensor forward(const Tensor& x) { return proj(x); }

  nn::Linear proj;
};

/// Layers, and gates between them.
class AlphaModelImpl : public Module {
 public:
  explicit AlphaModelImpl(const AlphaConfig& config)
      : layers(register_module("layers", ModuleListOf<AlphaLayer>())),
        gates(register_module("gates", ModuleListOf<AlphaLayer>())) {
    for (int64_t layer = 0; layer < config.num_layers; ++layer) layers->push_back(AlphaLayer(config, layer));
    // one less than layers
    for (int64_t gate = 0; gate + 1 < config.num_layers; ++gate) {
      AlphaLayer made(config, gate);
      widths.push_back(made->proj->options.out_features());
      gates->push_back(made);
    }
  }

  Tensor forward(const Tensor& x) {
    Tensor result = x;
    for (auto& layer : *layers) result = layer(result);
    return result;
  }

  ModuleListOf<AlphaLayer> layers;
  ModuleListOf<AlphaLayer> gates;
  std::vector<int64_t> widths;
};

}  // namespace modular::alpha
