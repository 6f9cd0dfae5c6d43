// Classes that initialize a parameter of their own, and the rest as Module does: by its name or by that of a base that
// does not override it.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaConfig : alpha::AlphaConfig {
  double scale_range = 0.5;
};

struct BetaMLPImpl : alpha::AlphaMLPImpl {
  explicit BetaMLPImpl(const BetaConfig& config)
      : AlphaMLPImpl(config), scale(register_parameter("scale", torch::empty({config.size}))) {}

  void reset_parameters() override {
    AlphaMLPImpl::reset_parameters();
    reset_scale(scale);
  }

  void reset_scale(const Tensor& tensor) { init::normal_(tensor, 0.0, initial_std()); }

  Tensor forward(const Tensor& x) { return AlphaMLPImpl::forward(x) * scale; }

  Tensor scale;
};
TORCH_MODULE(BetaMLP);

struct BetaWideMLPImpl : BetaMLPImpl {
  explicit BetaWideMLPImpl(const BetaConfig& config)
      : BetaMLPImpl(config), shift(register_parameter("shift", torch::empty({config.size}))) {}

  void reset_parameters() override {
    Module::reset_parameters();
    reset_scale(scale);
    init::zeros_(shift);
  }

  Tensor shift;
};
TORCH_MODULE(BetaWideMLP);

}  // namespace modular::beta
