// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t layers = 2;
};

/// A scaled linear layer.
class AlphaProjectionImpl : public Module {
 public:
  explicit AlphaProjectionImpl(const AlphaConfig& config)
      : proj(register_module("linear", linear(config.hidden_size, config.hidden_size, /*bias=*/true))),
        scale(register_parameter("scale", torch::ones({config.hidden_size}))) {
    // how often it was used
    count = register_buffer("count", torch::zeros({1}));
  }

  Tensor forward(const Tensor& x) { return proj(x) * scale; }

  void reset_parameters() override {
    init::ones_(scale);
    init::zeros_(count);
  }

  nn::Linear proj{nullptr};
  Tensor scale;
  Tensor count;
};

/// Several of them.
class AlphaStackImpl : public Module {
 public:
  explicit AlphaStackImpl(const AlphaConfig& config)
      : layers(register_module("layers", ModuleListOf<AlphaProjection>())) {
    for (int64_t layer = 0; layer < config.layers; ++layer) layers->push_back(AlphaProjection(config));
  }

  Tensor forward(const Tensor& x) {
    Tensor result = x;
    for (auto& layer : *layers) result = layer(result);
    return result;
  }

  ModuleListOf<AlphaProjection> layers;
};

}  // namespace modular::alpha
