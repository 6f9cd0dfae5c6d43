// A class that derives from another of its family.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
};

class AlphaModelImpl : public Module {
 public:
  explicit AlphaModelImpl(const AlphaConfig& config)
      : proj(register_module("proj", linear(config.hidden_size, config.hidden_size, false))) {}
  Tensor forward(const Tensor& x) { return proj(x); }
  nn::Linear proj;
};
TORCH_MODULE(AlphaModel);

class AlphaForPairsImpl : public AlphaModelImpl {
 public:
  using AlphaModelImpl::AlphaModelImpl;
  Tensor score(const Tensor& x, const Tensor& y) { return (forward(x) * forward(y)).sum(-1); }
};
TORCH_MODULE(AlphaForPairs);

}  // namespace modular::alpha
