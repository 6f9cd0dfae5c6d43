// Layers whose weights are stored transposed, as GPT-2 has them: fused ones, split by column within their parts, and a
// table of which each tp rank has some columns.
#pragma once

#include "modular/tiny.h"

namespace modular::transposed {
MODULAR_FAMILY(Transposed);

using TransposedConfig = tiny::TinyConfig;

class TransposedAttentionImpl : public tiny::TinyAttentionImpl {
 public:
  explicit TransposedAttentionImpl(const TransposedConfig& config)
      : TinyAttentionImpl(config),
        c_attn(register_module("c_attn", TransposedLinear(config.hidden_size, 3 * num_heads * head_dim))),
        c_proj(register_module("c_proj", TransposedLinear(num_heads * head_dim, config.hidden_size))),
        head_scale(register_parameter("head_scale", torch::ones({1, num_heads, 1, 1}))),
        position_bias(register_module("position_bias", embedding(8, num_heads, std::nullopt))) {}

  Tensor forward(const Tensor& hidden_states, const AttentionMask& mask) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1);
    const auto parts = c_attn(hidden_states).view({batch, seq, 3, num_heads, head_dim}).unbind(2);
    const Tensor query = parts[0].transpose(1, 2), key = parts[1].transpose(1, 2), value = parts[2].transpose(1, 2);
    const Tensor position = torch::arange(seq, hidden_states.options().dtype(torch::kLong));
    const Tensor distance = (position.unsqueeze(1) - position.unsqueeze(0)).clamp(0, 7);
    const Tensor bias = position_bias(distance).permute({2, 0, 1}).unsqueeze(0);
    const Tensor scores = torch::matmul(query, key.transpose(-2, -1)) * scaling + bias;
    const Tensor visible = visible_keys(mask, seq, hidden_states.device());
    const Tensor weights = torch::softmax(scores.masked_fill(visible.logical_not(), -1e9), -1);
    const Tensor mixed = torch::matmul(weights, value) * head_scale;
    return c_proj((mixed.transpose(1, 2).reshape({batch, seq, -1})));
  }

  void reset_parameters() override {
    TinyAttentionImpl::reset_parameters();
    init::ones_(head_scale);
  }

  TP_COLWISE_PARTS(num_heads * head_dim, num_heads * head_dim, num_heads * head_dim) TransposedLinear c_attn;
  TP_ROWWISE TransposedLinear c_proj;
  TP_SHARD(1) Tensor head_scale;
  TP_SHARD(1) nn::Embedding position_bias;

 private:
  using TinyAttentionImpl::k_proj;
  using TinyAttentionImpl::num_key_value_heads;
  using TinyAttentionImpl::o_proj;
  using TinyAttentionImpl::q_proj;
  using TinyAttentionImpl::v_proj;
};
TORCH_MODULE(TransposedAttention);

using TransposedForCausalLM MODEL_ENTRY("causal-lm") = tiny::TinyForCausalLM;

}  // namespace modular::transposed
