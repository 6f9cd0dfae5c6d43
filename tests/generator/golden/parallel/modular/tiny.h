// A decoder that is as small as one can be, for the others of this folder to derive from.
#pragma once

#include <cmath>

#include "modular/modular.h"

namespace modular::tiny {
MODULAR_FAMILY(Tiny);

struct TinyConfig : Config {
  int64_t vocab_size = 64;
  int64_t hidden_size = 32;
  int64_t intermediate_size = 48;
  int64_t num_hidden_layers = 2;
  int64_t num_attention_heads = 4;
  int64_t num_key_value_heads = 2;
  int64_t head_dim = 8;
  int64_t max_position_embeddings = 64;
  double initializer_range = 0.1;

  void finish() {}
};

/// Root mean square norm with a learned scale.
class TinyNormImpl : public Module {
 public:
  explicit TinyNormImpl(int64_t size) : weight(register_parameter("weight", torch::ones({size}))) {}

  Tensor forward(const Tensor& hidden_states) { return rms_norm(hidden_states, weight, 1e-6); }

  void reset_parameters() override { init::ones_(weight); }

  Tensor weight;  // [size]
};
TORCH_MODULE(TinyNorm);

class TinyMLPImpl : public Module {
 public:
  explicit TinyMLPImpl(const TinyConfig& config)
      : initializer_range(config.initializer_range),
        up_proj(register_module("up_proj", linear(config.hidden_size, config.intermediate_size, /*bias=*/true))),
        down_proj(register_module("down_proj", linear(config.intermediate_size, config.hidden_size, /*bias=*/true))) {}

  Tensor forward(const Tensor& x) { return down_proj(activation("gelu", up_proj(x))); }

  void reset_parameters() override { init::linear_and_embedding_(*this, initializer_range); }

  double initializer_range;
  TP_COLWISE nn::Linear up_proj;
  TP_ROWWISE nn::Linear down_proj;
};
TORCH_MODULE(TinyMLP);

class TinyAttentionImpl : public Module {
 public:
  explicit TinyAttentionImpl(const TinyConfig& config)
      : num_heads(config.num_attention_heads),
        num_key_value_heads(config.num_key_value_heads),
        head_dim(config.head_dim),
        scaling(1.0 / std::sqrt(static_cast<double>(head_dim))),
        initializer_range(config.initializer_range),
        q_proj(register_module("q_proj", linear(config.hidden_size, num_heads * head_dim, /*bias=*/true))),
        k_proj(register_module("k_proj", linear(config.hidden_size, num_key_value_heads * head_dim, /*bias=*/true))),
        v_proj(register_module("v_proj", linear(config.hidden_size, num_key_value_heads * head_dim, /*bias=*/true))),
        o_proj(register_module("o_proj", linear(num_heads * head_dim, config.hidden_size, /*bias=*/true))) {}

  Tensor forward(const Tensor& hidden_states, const AttentionMask& mask) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1);
    const Tensor query = q_proj(hidden_states).view({batch, seq, num_heads, head_dim}).transpose(1, 2);
    const Tensor key = k_proj(hidden_states).view({batch, seq, num_key_value_heads, head_dim}).transpose(1, 2);
    const Tensor value = v_proj(hidden_states).view({batch, seq, num_key_value_heads, head_dim}).transpose(1, 2);
    return o_proj(attention(query, key, value, mask, scaling));
  }

  void reset_parameters() override { init::linear_and_embedding_(*this, initializer_range); }

  TP_LOCAL int64_t num_heads;
  TP_LOCAL int64_t num_key_value_heads;
  int64_t head_dim;
  double scaling;
  double initializer_range;
  TP_COLWISE nn::Linear q_proj;
  TP_COLWISE nn::Linear k_proj;
  TP_COLWISE nn::Linear v_proj;
  TP_ROWWISE nn::Linear o_proj;
};
TORCH_MODULE(TinyAttention);

class FSDP_UNIT TinyLayerImpl : public Module {
 public:
  TinyLayerImpl(const TinyConfig& config, int64_t /*layer*/)
      : attn(register_module("attn", TinyAttention(config))),
        mlp(register_module("mlp", TinyMLP(config))),
        norm_1(register_module("norm_1", TinyNorm(config.hidden_size))),
        norm_2(register_module("norm_2", TinyNorm(config.hidden_size))) {}

  Tensor forward(const Tensor& hidden_states, const AttentionMask& mask) {
    const Tensor residual = hidden_states + attn(norm_1(hidden_states), mask);
    return residual + mlp(norm_2(residual));
  }

  TinyAttention attn;
  TinyMLP mlp;
  TinyNorm norm_1;
  TinyNorm norm_2;
};
TORCH_MODULE(TinyLayer);

class TinyModelImpl : public Module {
 public:
  explicit TinyModelImpl(const TinyConfig& config)
      : config(config),
        embed(register_module("embed", embedding(config.vocab_size, config.hidden_size, std::nullopt))),
        positions(
            register_module("positions", embedding(config.max_position_embeddings, config.hidden_size, std::nullopt))),
        layers(register_module("layers", ModuleListOf<TinyLayer>())),
        norm(register_module("norm", TinyNorm(config.hidden_size))) {
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) layers->push_back(TinyLayer(config, layer));
  }

  Tensor forward(const Batch& batch) {
    Tensor hidden_states = embed(batch.input_ids) + positions(position_ids(batch));
    const AttentionMask mask = causal_mask(batch.attention_mask, /*window=*/0);
    for (auto& layer : *layers) hidden_states = layer(hidden_states, mask);
    return norm(hidden_states);
  }

  void reset_parameters() override { init::linear_and_embedding_(*this, config.initializer_range); }

  TinyConfig config;
  PP_FIRST TP_VOCAB nn::Embedding embed;
  PP_FIRST nn::Embedding positions;
  PP_SPLIT ModuleListOf<TinyLayer> layers;
  PP_LAST TinyNorm norm;
};
TORCH_MODULE(TinyModel);

class MODEL_ENTRY("causal-lm") FSDP_UNIT TinyForCausalLMImpl : public Module {
 public:
  explicit TinyForCausalLMImpl(const TinyConfig& config)
      : initializer_range(config.initializer_range),
        model(register_module("model", TinyModel(config))),
        lm_head(register_module("lm_head", linear(config.hidden_size, config.vocab_size, /*bias=*/true))) {}

  Outputs forward(const Batch& batch) {
    const Tensor hidden_states = model(batch);
    // Bounded by 5, as Gemma 2 bounds its logits.
    const Tensor logits = torch::tanh(lm_head(hidden_states) / 5.0) * 5.0;
    Outputs outputs;
    if (batch.labels.defined()) {
      const Tensor targets = next_tokens(batch.labels);
      outputs.loss_sum = cross_entropy(logits, targets);
      outputs.token_count = count_targets(targets);
    }
    if (batch.want_logits) outputs.logits = logits;
    return outputs;
  }

  void reset_parameters() override { init::linear_and_embedding_(*this, initializer_range); }

  double initializer_range;
  TinyModel model;
  PP_LAST TP_VOCAB nn::Linear lm_head;
};
TORCH_MODULE(TinyForCausalLM);

}  // namespace modular::tiny
