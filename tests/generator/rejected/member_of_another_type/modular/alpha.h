// The base of beta.h, with a layer.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {

MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
};

class AlphaMLPImpl : public Module {
 public:
  explicit AlphaMLPImpl(const AlphaConfig& config) : proj(linear(config.hidden_size, config.hidden_size, false)) {}

  Tensor forward(const Tensor& x) { return proj(x); }

  nn::Linear proj;
};

}  // namespace modular::alpha
