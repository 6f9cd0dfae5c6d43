// Sizes and dimensions that stand in a variable, where a share of a count or a split dimension may be among them.
#pragma once

#include <vector>

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
      : gate(register_module("gate", linear(config.hidden_size, config.num_heads * config.head_dim, false))),
        up(register_module("up", linear(config.hidden_size, config.num_heads * config.head_dim, false))),
        down(register_module("down", linear(config.num_heads * config.head_dim, config.hidden_size, false))),
        num_heads(config.num_heads),
        num_heads_of_all(config.num_heads),
        head_dim(config.head_dim),
        scale(register_buffer("scale", torch::cat({torch::ones({config.num_heads, 1})}))) {}

  Tensor viewed(const Tensor& x) {
    const std::vector<int64_t> sizes{x.size(0), -1, num_heads, head_dim};
    return x.view(sizes);
  }
  Tensor reduced(const Tensor& x) {
    std::vector<int64_t> dims(1);
    dims[0] = 2;
    return down(up(x) * gate(x).mean(dims, true));
  }
  Tensor expanded(const Tensor& x) {
    const Tensor heads = up(x).view({x.size(0), x.size(1), num_heads, head_dim});
    const Tensor weight = torch::ones({x.size(0), 1, num_heads_of_all, 1}) * x.mean();
    return (heads * weight.expand(weight.sizes())).flatten(2);
  }
  Tensor listed(const Tensor& x) {
    const Tensor heads = up(x).view({x.size(0), x.size(1), num_heads, head_dim});
    return (heads * scale).flatten(2);
  }
  Tensor narrowed(const Tensor& x) { return x.narrow(num_heads, 0, 1); }
  Tensor dropped(const Tensor& x) {
    const Tensor heads = up(x).view({x.size(0), x.size(1), num_heads, head_dim}).transpose(1, 2);
    return torch::scaled_dot_product_attention(heads, heads, heads, {}, 0.1).transpose(1, 2).flatten(2);
  }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  TP_LOCAL int64_t num_heads;
  int64_t num_heads_of_all;
  int64_t head_dim;
  Tensor scale;
};
TORCH_MODULE(AlphaLayers);

}  // namespace modular::alpha
