// Masks of attention by which ranks would hide different keys, and one that others are changed through.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t num_heads = 4;
  int64_t head_dim = 2;
};

class AlphaAttentionImpl : public Module {
 public:
  explicit AlphaAttentionImpl(const AlphaConfig& config)
      : up(register_module("up", linear(config.hidden_size, config.num_heads * config.head_dim, false))),
        down(register_module("down", linear(config.num_heads * config.head_dim, config.hidden_size, false))),
        num_heads(config.num_heads),
        head_dim(config.head_dim) {}

  Tensor of_heads(const Tensor& x) { return up(x).view({x.size(0), x.size(1), num_heads, head_dim}).transpose(1, 2); }

  Tensor put_together(const Tensor& x) {
    AttentionMask mask = whole_mask();
    mask.padding = of_heads(x).mean(3).mean(2).gt(0.0);
    return down(attention(of_heads(x), of_heads(x), of_heads(x), mask, 0.5));
  }
  Tensor made_of_padding(const Tensor& x) {
    const AttentionMask mask = causal_mask(of_heads(x).mean(3).mean(2), /*window=*/0);
    return down(attention(of_heads(x), of_heads(x), of_heads(x), mask, 0.5));
  }
  Tensor made_a_tensor(const Tensor& x) {
    AttentionMask mask = whole_mask();
    mask.documents = of_heads(x).mean(3).mean(2).to(torch::kLong);
    const Tensor visible = visible_keys(mask, x.size(1), x.device());
    return down(attention(of_heads(x), of_heads(x), of_heads(x), visible, 0.5));
  }
  Tensor changed(const Tensor& x, const AttentionMask& mask) {
    mask.padding.logical_not_();
    return down(attention(of_heads(x), of_heads(x), of_heads(x), mask, 0.5));
  }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  TP_LOCAL int64_t num_heads;
  int64_t head_dim;
};
TORCH_MODULE(AlphaAttention);

}  // namespace modular::alpha
