// The base of beta.h and gamma.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  double norm_eps = 1e-6;
};

/// Root mean square norm.
class AlphaNormImpl : public Module {
 public:
  AlphaNormImpl(int64_t hidden_size, double eps)
      : weight(register_parameter("weight", torch::ones({hidden_size}))), eps(eps) {}

  Tensor forward(const Tensor& x) { return rms_norm(x, weight, eps); }

  void reset_parameters() override { init::ones_(weight); }

  Tensor weight;
  double eps;
};

/// Two of them around a layer.
class AlphaBlockImpl : public Module {
 public:
  explicit AlphaBlockImpl(const AlphaConfig& config)
      : before(register_module("before", AlphaNorm(config.hidden_size, config.norm_eps))),
        proj(register_module("proj", linear(config.hidden_size, config.hidden_size, /*bias=*/false))),
        after(register_module("after", std::make_shared<AlphaNormImpl>(config.hidden_size, config.norm_eps))) {}

  Tensor forward(const Tensor& x) { return after(proj(before(x))); }

  AlphaNorm before;
  nn::Linear proj;
  AlphaNorm after;
};

}  // namespace modular::alpha
