// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  std::optional<int64_t> inner_size;
};

inline constexpr double kAlphaEps = 1e-6;

class AlphaNormImpl : public Module {
 public:
  explicit AlphaNormImpl(int64_t size, double eps = kAlphaEps, bool bias = true, const std::string& name = "norm")
      : weight(register_parameter("weight", torch::ones({size}))), eps(eps), name(name) {
    // Where there is one.
    if (bias) shift = register_parameter("shift", torch::zeros({size}));
  }

  Tensor forward(const Tensor& x) { return x * weight; }

  Tensor weight, shift;
  double eps;
  std::string name;
};
TORCH_MODULE(AlphaNorm);

}  // namespace modular::alpha
