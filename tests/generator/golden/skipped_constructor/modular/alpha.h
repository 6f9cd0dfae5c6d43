// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
};

class AlphaBaseImpl : public Module {
 public:
  explicit AlphaBaseImpl(const AlphaConfig& config, double eps = 1e-6)
      : proj(register_module("proj", linear(config.hidden_size, config.hidden_size, true))), eps(eps) {}

  Tensor forward(const Tensor& x) { return proj(x) + eps; }

  nn::Linear proj;
  double eps;
};
TORCH_MODULE(AlphaBase);

class AlphaWideImpl : public AlphaBaseImpl {
 public:
  explicit AlphaWideImpl(const AlphaConfig& config)
      : AlphaBaseImpl(config), wide(register_module("wide", linear(config.hidden_size, 2 * config.hidden_size, true))) {}

  Tensor forward(const Tensor& x) { return wide(AlphaBaseImpl::forward(x)); }

  nn::Linear wide;
};
TORCH_MODULE(AlphaWide);

}  // namespace modular::alpha
