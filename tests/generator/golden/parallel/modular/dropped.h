// Dropout of full values is a call of its layer; of features and heads that are split it is told which part they are,
// and of partial sums that are added it stands before their sum.
#pragma once

#include "modular/tiny.h"

namespace modular::dropped {
MODULAR_FAMILY(Dropped);

struct DroppedConfig : tiny::TinyConfig {
  double dropout = 0.2;
};

struct DroppedMLPImpl : tiny::TinyMLPImpl {
  explicit DroppedMLPImpl(const DroppedConfig& config)
      : TinyMLPImpl(config), dropout(register_module("dropout", nn::Dropout(config.dropout))) {}

  Tensor forward(const Tensor& x) { return down_proj(dropout(activation("gelu", up_proj(x)))); }

  nn::Dropout dropout;
};
TORCH_MODULE(DroppedMLP);

struct DroppedAttentionImpl : tiny::TinyAttentionImpl {
  explicit DroppedAttentionImpl(const DroppedConfig& config)
      : TinyAttentionImpl(config), dropout(register_module("dropout", nn::Dropout(config.dropout))) {}

  Tensor forward(const Tensor& hidden_states, const AttentionMask& mask) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1);
    const Tensor query = q_proj(hidden_states).view({batch, seq, num_heads, head_dim}).transpose(1, 2);
    const Tensor key = k_proj(hidden_states).view({batch, seq, num_key_value_heads, head_dim}).transpose(1, 2);
    const Tensor value = v_proj(hidden_states).view({batch, seq, num_key_value_heads, head_dim}).transpose(1, 2);
    return o_proj(attention(query, key, value, mask, scaling, dropout));
  }

  nn::Dropout dropout;
};
TORCH_MODULE(DroppedAttention);

struct DroppedLayerImpl : tiny::TinyLayerImpl {
  DroppedLayerImpl(const DroppedConfig& config, int64_t layer)
      : TinyLayerImpl(config, layer),
        of_attention(register_module("of_attention", nn::Dropout(config.dropout))),
        of_mlp(register_module("of_mlp", nn::Dropout(config.dropout))),
        of_sum(register_module("of_sum", nn::Dropout(config.dropout))) {}

  Tensor forward(const Tensor& hidden_states, const AttentionMask& mask) {
    const Tensor attended = of_attention(attn(norm_1(hidden_states), mask));
    return of_sum(attended + of_mlp(mlp(norm_2(hidden_states))) + hidden_states);
  }

  nn::Dropout of_attention;
  nn::Dropout of_mlp;
  nn::Dropout of_sum;
};
TORCH_MODULE(DroppedLayer);

using DroppedForCausalLM MODEL_ENTRY("causal-lm") = tiny::TinyForCausalLM;

}  // namespace modular::dropped
