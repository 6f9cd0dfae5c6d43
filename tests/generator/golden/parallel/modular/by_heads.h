// What each head has one of, split as the heads are: weights of norms over all heads together, ALiBi's slopes, a buffer
// of gains, and attention's sinks.
#pragma once

#include "modular/tiny.h"

namespace modular::by_heads {
MODULAR_FAMILY(ByHeads);

class ByHeadsJointNormImpl : public tiny::TinyNormImpl {
 public:
  using TinyNormImpl::TinyNormImpl;
  TP_SHARD(0) Tensor weight;
};
TORCH_MODULE(ByHeadsJointNorm);

class ByHeadsAttentionImpl : public tiny::TinyAttentionImpl {
 public:
  explicit ByHeadsAttentionImpl(const tiny::TinyConfig& config)
      : TinyAttentionImpl(config),
        q_norm(register_module("q_norm", ByHeadsJointNorm(num_heads * head_dim))),
        k_norm(register_module("k_norm", ByHeadsJointNorm(num_key_value_heads * head_dim))),
        sinks(register_parameter("sinks", torch::zeros({num_heads}))) {}

  Tensor forward(const Tensor& hidden_states, const AttentionMask& mask, const Tensor& biases) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1);
    const Tensor query = q_norm(q_proj(hidden_states)).view({batch, seq, num_heads, head_dim}).transpose(1, 2);
    const Tensor key = k_norm(k_proj(hidden_states)).view({batch, seq, num_key_value_heads, head_dim}).transpose(1, 2);
    const Tensor value = v_proj(hidden_states).view({batch, seq, num_key_value_heads, head_dim}).transpose(1, 2);
    const Tensor biased = attention_with_biases(query, key, value, biases, scaling);
    return o_proj(biased + attention_with_sinks(query, key, value, mask, scaling, sinks));
  }

  void reset_parameters() override {
    TinyAttentionImpl::reset_parameters();
    init::normal_(sinks, 0.0, 1.0);
  }

  ByHeadsJointNorm q_norm;
  ByHeadsJointNorm k_norm;
  TP_SHARD(0) Tensor sinks;  // [heads]
};
TORCH_MODULE(ByHeadsAttention);

class ByHeadsLayerImpl : public tiny::TinyLayerImpl {
 public:
  using TinyLayerImpl::TinyLayerImpl;

  Tensor forward(const Tensor& hidden_states, const AttentionMask& mask, const Tensor& biases) {
    const Tensor residual = hidden_states + attn(norm_1(hidden_states), mask, biases);
    return residual + mlp(norm_2(residual));
  }

  ByHeadsAttention attn;
};
TORCH_MODULE(ByHeadsLayer);

class ByHeadsModelImpl : public tiny::TinyModelImpl {
 public:
  explicit ByHeadsModelImpl(const tiny::TinyConfig& config)
      : TinyModelImpl(config),
        num_heads(config.num_attention_heads),
        gains(register_buffer("gains", torch::ones({num_heads}))) {}

  Tensor forward(const Batch& batch) {
    Tensor hidden_states = embed(batch.input_ids);
    const AttentionMask mask = causal_mask(batch, /*window=*/0);
    const Tensor slopes = alibi_slopes(num_heads, batch.input_ids.device()) * gains;
    const Tensor biases = alibi_mask(batch, slopes, hidden_states.scalar_type());
    for (auto& layer : *layers) hidden_states = layer(hidden_states, mask, biases);
    return norm(hidden_states);
  }

  void reset_parameters() override {
    TinyModelImpl::reset_parameters();
    init::uniform_(gains, 0.5, 1.5);
  }

  TP_LOCAL int64_t num_heads;
  TP_SHARD(0) Tensor gains;  // [heads]
  PP_SPLIT ModuleListOf<ByHeadsLayer> layers;

 private:
  using TinyModelImpl::positions;
};
TORCH_MODULE(ByHeadsModel);

using ByHeadsForCausalLM MODEL_ENTRY("causal-lm") = tiny::TinyForCausalLM;

}  // namespace modular::by_heads
