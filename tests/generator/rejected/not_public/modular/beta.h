// A base without `public`: nothing could use the module as one.
#pragma once

#include "modular/modular.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaConfig : Config {
  int64_t hidden_size = 8;
};

class BetaProjectionImpl : Module {
 public:
  explicit BetaProjectionImpl(const BetaConfig& config)
      : proj(register_module("proj", linear(config.hidden_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x) { return proj(x); }

  nn::Linear proj;
};
TORCH_MODULE(BetaProjection);

}  // namespace modular::beta
