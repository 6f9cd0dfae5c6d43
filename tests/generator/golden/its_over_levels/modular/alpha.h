// The first of four families: a block of a gain.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
};

class AlphaGainImpl : public Module {
 public:
  explicit AlphaGainImpl(const AlphaConfig& config)
      : weight(register_parameter("weight", torch::ones({config.hidden_size}))) {}

  Tensor forward(const Tensor& x) { return x * weight; }

  Tensor weight;  // [hidden]
};
TORCH_MODULE(AlphaGain);

class AlphaBlockImpl : public Module {
 public:
  explicit AlphaBlockImpl(const AlphaConfig& config) : gain(register_module("gain", AlphaGain(config))) {}

  Tensor forward(const Tensor& x) { return gain(x) + x; }

  AlphaGain gain;
};
TORCH_MODULE(AlphaBlock);

}  // namespace modular::alpha
