// Attention with what each head has one of: a slope of ALiBi, a sink.
#pragma once

#include <cmath>
#include <limits>

#include "modular/modular.h"

namespace modular::alibi {
MODULAR_FAMILY(Alibi);

struct AlibiConfig : Config {
  int64_t hidden_size = 64;
  int64_t num_attention_heads = 4;
  int64_t window = 128;
  double initializer_range = 0.02;
};

class AlibiAttentionImpl : public Module {
 public:
  explicit AlibiAttentionImpl(const AlibiConfig& config)
      : num_heads(config.num_attention_heads),
        head_dim(config.hidden_size / config.num_attention_heads),
        window(config.window),
        initializer_range(config.initializer_range),
        query(register_module("query", linear(config.hidden_size, num_heads * head_dim, /*bias=*/false))),
        key(register_module("key", linear(config.hidden_size, num_heads * head_dim, /*bias=*/false))),
        value(register_module("value", linear(config.hidden_size, num_heads * head_dim, /*bias=*/false))),
        output(register_module("output", linear(num_heads * head_dim, config.hidden_size, /*bias=*/false))),
        sinks(register_parameter("sinks", torch::zeros({config.num_attention_heads}))) {}

  /// What is added to the scores of a batch's tokens, each of which sees `window` of them.
  Tensor biases(const Batch& batch, const Tensor& hidden_states) {
    const Tensor slopes = alibi_slopes(num_heads, batch.input_ids.device());
    const Tensor far = alibi_mask(batch, slopes, hidden_states.scalar_type());
    const Tensor near = visible_keys(causal_mask(batch, window), hidden_states.size(1), hidden_states.device());
    return far.masked_fill(near.logical_not(), std::numeric_limits<float>::lowest());
  }

  Tensor forward(const Batch& batch, const Tensor& hidden_states) {
    const int64_t rows = hidden_states.size(0), seq = hidden_states.size(1);
    const Tensor q = query(hidden_states).view({rows, seq, num_heads, head_dim}).transpose(1, 2);
    const Tensor k = key(hidden_states).view({rows, seq, num_heads, head_dim}).transpose(1, 2);
    const Tensor v = value(hidden_states).view({rows, seq, num_heads, head_dim}).transpose(1, 2);
    const double scaling = 1.0 / std::sqrt(static_cast<double>(head_dim));
    const Tensor near = attention_with_biases(q, k, v, biases(batch, hidden_states), scaling);
    const Tensor calm = attention_with_sinks(q, k, v, causal_mask(batch, /*window=*/0), scaling, sinks);
    return output(near + calm);
  }

  void reset_parameters() override {
    init::linear_and_embedding_(*this, initializer_range);
    init::normal_(sinks, 0.0, initializer_range);
  }

  TP_LOCAL int64_t num_heads;
  int64_t head_dim;
  int64_t window;
  double initializer_range;
  TP_COLWISE nn::Linear query;
  TP_COLWISE nn::Linear key;
  TP_COLWISE nn::Linear value;
  TP_ROWWISE nn::Linear output;
  TP_SHARD(0) Tensor sinks;  // [heads]
};
TORCH_MODULE(AlibiAttention);

class MODEL_ENTRY("causal-lm") FSDP_UNIT AlibiForCausalLMImpl : public Module {
 public:
  explicit AlibiForCausalLMImpl(const AlibiConfig& config)
      : Module(config.initializer_range),
        config(config),
        embed(register_module("embed", embedding(256, config.hidden_size, std::nullopt))),
        mixer(register_module("mixer", AlibiAttention(config))) {}

  Outputs forward(const Batch& batch) {
    Outputs outputs;
    outputs.logits = mixer(batch, embed(batch.input_ids));
    return outputs;
  }

  AlibiConfig config;
  nn::Embedding embed;
  AlibiAttention mixer;
};
TORCH_MODULE(AlibiForCausalLM);

}  // namespace modular::alibi
