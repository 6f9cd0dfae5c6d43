// A norm over each head, whose parameters are whole where the heads are split: they are entered, so that their
// gradients are summed. One norm class serves heads and full values, so it gets a second form.
#pragma once

#include "modular/tiny.h"

namespace modular::head_norms {
MODULAR_FAMILY(HeadNorms);

class HeadNormsAttentionImpl : public tiny::TinyAttentionImpl {
 public:
  explicit HeadNormsAttentionImpl(const tiny::TinyConfig& config)
      : TinyAttentionImpl(config),
        q_norm(register_module("q_norm", tiny::TinyNorm(config.head_dim))),
        k_norm(register_module("k_norm", tiny::TinyNorm(config.head_dim))) {}

  Tensor forward(const Tensor& hidden_states, const AttentionMask& mask) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1);
    const Tensor query = q_norm(q_proj(hidden_states).view({batch, seq, num_heads, head_dim})).transpose(1, 2);
    const Tensor key = k_norm(k_proj(hidden_states).view({batch, seq, num_key_value_heads, head_dim})).transpose(1, 2);
    const Tensor value = v_proj(hidden_states).view({batch, seq, num_key_value_heads, head_dim}).transpose(1, 2);
    return o_proj(attention(query, key, value, mask, scaling));
  }

  tiny::TinyNorm q_norm;
  tiny::TinyNorm k_norm;
};
TORCH_MODULE(HeadNormsAttention);

using HeadNormsForCausalLM MODEL_ENTRY("causal-lm") = tiny::TinyForCausalLM;

}  // namespace modular::head_norms
