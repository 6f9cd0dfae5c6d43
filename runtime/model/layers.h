// Layers that libtorch lacks.
#pragma once

#include "runtime/model/init.h"
#include "runtime/model/module.h"

namespace modular {

/// Layer norm (Ba et al.) over the last dimension, with an optional bias.
class LayerNormImpl : public Module {
 public:
  LayerNormImpl(int64_t hidden_size, double eps, bool has_bias = true)
      : weight(register_parameter("weight", torch::ones({hidden_size}))), eps(eps) {
    if (has_bias) bias = register_parameter("bias", torch::zeros({hidden_size}));
  }

  Tensor forward(const Tensor& x) { return at::layer_norm(x, weight.sizes(), weight, bias, eps); }

  void reset_parameters() override {
    init::ones_(weight);
    init::zeros_(bias);
  }

  Tensor weight;  // [hidden]
  Tensor bias;    // [hidden], or undefined
  double eps;
};
TORCH_MODULE(LayerNorm);

}  // namespace modular
