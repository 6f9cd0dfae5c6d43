// Options by which layers and functions of libtorch change their input or their parameters, or by which gradients
// depend on the whole batch; a norm of libtorch over more dimensions than the last one.
#pragma once

#include <torch/nn.h>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t num_heads = 4;
  int64_t head_dim = 2;
};

class AlphaLayersImpl : public Module {
 public:
  explicit AlphaLayersImpl(const AlphaConfig& config)
      : num_heads(config.num_heads),
        head_dim(config.head_dim),
        few(register_module("few", nn::Embedding(nn::EmbeddingOptions(16, config.hidden_size).max_norm(1.0)))),
        even(register_module("even",
                             nn::Embedding(nn::EmbeddingOptions(16, config.hidden_size).scale_grad_by_freq(true)))),
        sparse(register_module("sparse", nn::Embedding(nn::EmbeddingOptions(16, config.hidden_size).sparse(true)))),
        dense(register_module("dense", nn::Embedding(nn::EmbeddingOptions(16, config.hidden_size).sparse(false)))),
        relu(register_module("relu", torch::nn::ReLU(true))),
        clipped(register_module("clipped", torch::nn::ReLU6(torch::nn::ReLU6Options().inplace(true)))),
        up(register_module("up", linear(config.hidden_size, config.num_heads * config.head_dim, false))),
        table(register_parameter("table", torch::ones({16, config.hidden_size}))),
        norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({4, 2})))) {}

  Tensor forward(const Tensor& ids) { return relu(few(ids)) + clipped(even(ids)) + sparse(ids) + dense(ids); }
  Tensor of_table(const Tensor& ids) {
    return torch::embedding(table, ids, -1, true) + torch::embedding(table, ids, 0, false, true) +
           torch::embedding(table, ids, 0, false, false);
  }
  Tensor activated(const Tensor& x) {
    return torch::nn::functional::relu(x, torch::nn::functional::ReLUFuncOptions().inplace(true));
  }
  Tensor normed(const Tensor& x) { return norm(up(x).view({x.size(0), x.size(1), num_heads, head_dim})); }

  TP_LOCAL int64_t num_heads;
  int64_t head_dim;
  nn::Embedding few;
  nn::Embedding even;
  nn::Embedding sparse;
  nn::Embedding dense;
  torch::nn::ReLU relu;
  torch::nn::ReLU6 clipped;
  TP_COLWISE nn::Linear up;
  Tensor table;
  torch::nn::LayerNorm norm;
};
TORCH_MODULE(AlphaLayers);

}  // namespace modular::alpha
