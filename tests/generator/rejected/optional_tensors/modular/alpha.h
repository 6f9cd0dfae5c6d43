// Optional operands that hold a full tensor where others are split or partial sums.
#pragma once

#include <optional>

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
        up(register_module("up", linear(config.hidden_size, config.num_heads * config.head_dim, false))),
        down(register_parameter("down", torch::ones({config.hidden_size, config.num_heads * config.head_dim}))),
        bias(register_parameter("bias", torch::ones({config.hidden_size}))),
        scale(register_parameter("scale", torch::ones({config.head_dim}))),
        limits(register_parameter("limits", torch::ones({config.num_heads * config.head_dim}))) {}

  Tensor added(const Tensor& x) { return torch::linear(up(x), down, std::optional<Tensor>(bias)); }
  Tensor normed(const Tensor& x) {
    const Tensor heads = up(x).view({x.size(0), x.size(1), num_heads, head_dim});
    return torch::layer_norm(heads, {head_dim}, std::optional<Tensor>(scale));
  }
  Tensor limited(const Tensor& x) { return up(x).clamp(std::optional<Tensor>(limits)); }
  Tensor held(const Tensor& x) {
    const std::optional<Tensor> given = scale;
    const Tensor heads = up(x).view({x.size(0), x.size(1), num_heads, head_dim});
    return torch::layer_norm(heads, {head_dim}, given);
  }

  TP_LOCAL int64_t num_heads;
  int64_t head_dim;
  TP_COLWISE nn::Linear up;
  TP_REDUCE(1) Tensor down;
  Tensor bias;
  Tensor scale;
  Tensor limits;
};
TORCH_MODULE(AlphaLayers);

}  // namespace modular::alpha
