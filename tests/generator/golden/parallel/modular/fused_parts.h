// Layers that make several values at once: each part of them is split by itself, and the file keeps them whole.
#pragma once

#include "modular/tiny.h"

namespace modular::fused_parts {
MODULAR_FAMILY(FusedParts);

using FusedPartsConfig = tiny::TinyConfig;

/// Gate and up in one layer.
class FusedPartsMLPImpl : public tiny::TinyMLPImpl {
 public:
  explicit FusedPartsMLPImpl(const FusedPartsConfig& config)
      : TinyMLPImpl(config),
        intermediate_size(config.intermediate_size),
        gate_up_proj(
            register_module("gate_up_proj", linear(config.hidden_size, 2 * intermediate_size, /*bias=*/true))) {}

  Tensor forward(const Tensor& x) {
    const auto gate_and_up = gate_up_proj(x).chunk(2, -1);
    return down_proj(gated_activation("silu", gate_and_up[0], gate_and_up[1]));
  }

  int64_t intermediate_size;
  TP_COLWISE_PARTS(intermediate_size, intermediate_size) nn::Linear gate_up_proj;

 private:
  using TinyMLPImpl::up_proj;
};
TORCH_MODULE(FusedPartsMLP);

/// Query, key and value in one layer, of different sizes.
class FusedPartsAttentionImpl : public tiny::TinyAttentionImpl {
 public:
  explicit FusedPartsAttentionImpl(const FusedPartsConfig& config)
      : TinyAttentionImpl(config),
        qkv_proj(
            register_module("qkv_proj", linear(config.hidden_size, (num_heads + 2 * num_key_value_heads) * head_dim,
                                               /*bias=*/true))) {}

  Tensor forward(const Tensor& hidden_states, const AttentionMask& mask) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1);
    const auto parts =
        qkv_proj(hidden_states)
            .split_with_sizes({num_heads * head_dim, num_key_value_heads * head_dim, num_key_value_heads * head_dim},
                              -1);
    const Tensor query = parts[0].view({batch, seq, num_heads, head_dim}).transpose(1, 2);
    const Tensor key = parts[1].view({batch, seq, num_key_value_heads, head_dim}).transpose(1, 2);
    const Tensor value = parts[2].view({batch, seq, num_key_value_heads, head_dim}).transpose(1, 2);
    return o_proj(attention(query, key, value, mask, scaling));
  }

  TP_COLWISE_PARTS(num_heads * head_dim, num_key_value_heads * head_dim, num_key_value_heads * head_dim)
  nn::Linear qkv_proj;

 private:
  using TinyAttentionImpl::k_proj;
  using TinyAttentionImpl::q_proj;
  using TinyAttentionImpl::v_proj;
};
TORCH_MODULE(FusedPartsAttention);

using FusedPartsForCausalLM MODEL_ENTRY("causal-lm") = tiny::TinyForCausalLM;

}  // namespace modular::fused_parts
