// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  std::vector<std::string> layer_types;
};

class AlphaLayerImpl : public Module {
 public:
  AlphaLayerImpl(const AlphaConfig& config, bool sliding)
      : proj(register_module("proj", linear(config.hidden_size, config.hidden_size, sliding))) {
    if (sliding) scale = 0.5;
    offset = scale * 2.0;
  }

  Tensor forward(const Tensor& x) { return proj(x) * scale + offset; }

  nn::Linear proj;
  double scale = 1.0;
  double offset;
};
TORCH_MODULE(AlphaLayer);

}  // namespace modular::alpha
