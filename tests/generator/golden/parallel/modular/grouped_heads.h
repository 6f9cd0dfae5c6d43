// Queries, keys and values in one layer, interleaved by group as in InternLM2: a rank that held a group with others
// would have all of its queries, so each group has one rank.
#pragma once

#include "modular/tiny.h"

namespace modular::grouped_heads {
MODULAR_FAMILY(GroupedHeads);

class GroupedHeadsAttentionImpl : public tiny::TinyAttentionImpl {
 public:
  explicit GroupedHeadsAttentionImpl(const tiny::TinyConfig& config)
      : TinyAttentionImpl(config),
        queries(config.num_attention_heads / config.num_key_value_heads),
        group(queries + 2),
        qkv_proj(linear(config.hidden_size, num_key_value_heads * group * head_dim, /*bias=*/true)) {}

  Tensor forward(const Tensor& hidden_states, const AttentionMask& mask) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1);
    const auto parts = qkv_proj(hidden_states)
                           .view({batch, seq, num_key_value_heads, group, head_dim})
                           .split_with_sizes({queries, 1, 1}, 3);
    const Tensor query = parts[0].reshape({batch, seq, num_heads, head_dim}).transpose(1, 2);
    const Tensor key = parts[1].reshape({batch, seq, num_key_value_heads, head_dim}).transpose(1, 2);
    const Tensor value = parts[2].reshape({batch, seq, num_key_value_heads, head_dim}).transpose(1, 2);
    return o_proj(attention(query, key, value, mask, scaling));
  }

  int64_t queries;  // per group
  int64_t group;    // heads of queries, keys and values in one group
  TP_COLWISE nn::Linear qkv_proj;

 private:
  using TinyAttentionImpl::q_proj, TinyAttentionImpl::k_proj, TinyAttentionImpl::v_proj;
};

using GroupedHeadsForCausalLM MODEL_ENTRY("causal-lm") = tiny::TinyForCausalLM;

}  // namespace modular::grouped_heads
