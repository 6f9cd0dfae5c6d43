// Sizes that reset_parameters() reads where a rank holds a slice, and others that are the same everywhere.
#pragma once

#include <cmath>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
};

inline double by_width(const Tensor& weight) { return 1.0 / static_cast<double>(weight.size(1)); }

class AlphaLayersImpl : public Module {
 public:
  explicit AlphaLayersImpl(const AlphaConfig& config)
      : up(register_module("up", linear(config.hidden_size, config.inner_size, true))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, true))),
        taps(register_parameter("taps", torch::ones({config.inner_size, 1, 3}))) {}

  Tensor forward(const Tensor& x) { return down(up(x)); }

  void reset_parameters() override {
    init::normal_(up->weight, 0.0, 1.0 / std::sqrt(static_cast<double>(up->weight.size(0))));
    init::normal_(down->weight, 0.0, 1.0 / std::sqrt(static_cast<double>(down->weight.size(-1))));
    init::normal_(taps, 0.0, 1.0 / static_cast<double>(taps.numel()));
    init::uniform_(up->bias, 0.0, 1.0 / static_cast<double>(up->weight.size(1)));
    init::uniform_(down->bias, 0.0, 1.0 / static_cast<double>(down->bias.size(0) * taps.size(-1)));
    const Tensor weight = down->weight;
    init::normal_(weight, 0.0, 1.0 / static_cast<double>(weight.size(1)));
    init::normal_(down->weight, 0.0, by_width(down->weight));
    init::fill(up->weight, [](Tensor& full) { full.fill_(1.0 / static_cast<double>(full.size(0))); });
  }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  TP_SHARD(0) Tensor taps;
};
TORCH_MODULE(AlphaLayers);

}  // namespace modular::alpha
