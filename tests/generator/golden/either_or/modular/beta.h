// A member that is one class or another, under one registered name.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaPairMLPImpl : public Module {
 public:
  explicit BetaPairMLPImpl(const alpha::AlphaConfig& config)
      : first(register_module("first", alpha::AlphaMLP(config))), second(register_module("second", alpha::AlphaMLP(config))) {}

  Tensor forward(const Tensor& x) { return first(x) + second(x); }

  alpha::AlphaMLP first;
  alpha::AlphaMLP second;
};
TORCH_MODULE(BetaPairMLP);

class BetaLayerImpl : public alpha::AlphaLayerImpl {
 public:
  BetaLayerImpl(const alpha::AlphaConfig& config, int64_t layer) : AlphaLayerImpl(config) {
    remove(mlp);
    if (layer % 2 == 0) {
      mlp = register_module("mlp", BetaPairMLP(config));
    } else {
      mlp = register_module("mlp", alpha::AlphaMLP(config));
    }
  }

  OneOf<BetaPairMLP, alpha::AlphaMLP> mlp{nullptr};
};
TORCH_MODULE(BetaLayer);

}  // namespace modular::beta
