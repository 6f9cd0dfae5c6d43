// What layers read of the positions: a rank's own, those of all ranks, or numbers of either.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t vocab_size = 16;
  int64_t hidden_size = 8;
  int64_t num_heads = 4;
  int64_t num_experts = 2;
  int64_t num_hidden_layers = 2;
  double dropout = 0.1;
};

/// Attention whose queries and keys have a norm with a learned scale.
class AlphaAttentionImpl : public Module {
 public:
  explicit AlphaAttentionImpl(const AlphaConfig& config)
      : num_heads(config.num_heads),
        width(config.hidden_size),
        qkv(linear(config.hidden_size, 3 * config.hidden_size, /*bias=*/false)),
        scale(register_parameter("scale", torch::ones({config.hidden_size / config.num_heads}))),
        out(linear(config.hidden_size, config.hidden_size, /*bias=*/true)),
        dropout(nn::Dropout(config.dropout)) {}

  Tensor forward(const Tensor& x, const AttentionMask& mask) {
    const int64_t batch = x.size(0), seq = x.size(1);
    const auto parts = qkv(x).chunk(3, -1);
    const Tensor query = by_head(parts[0], batch, seq), key = by_head(parts[1], batch, seq);
    const Tensor attended = attention(rms_norm(query, scale, 1e-6), rms_norm(key, scale, 1e-6),
                                      by_head(parts[2], batch, seq), mask, /*scale=*/0.5, dropout);
    return out(attended);
  }

  Tensor by_head(const Tensor& x, int64_t batch, int64_t seq) {
    return x.view({batch, seq, num_heads, -1}).transpose(1, 2);
  }

  TP_LOCAL int64_t num_heads;
  int64_t width;
  TP_COLWISE_PARTS(width, width, width) nn::Linear qkv;
  Tensor scale;  // [head_dim]
  TP_ROWWISE nn::Linear out;
  nn::Dropout dropout;
};

/// A mixture of experts, whose rows are the positions of all sequences.
class AlphaExpertsImpl : public Module {
 public:
  explicit AlphaExpertsImpl(const AlphaConfig& config)
      : inner_size(config.hidden_size),
        router(linear(config.hidden_size, config.num_experts, /*bias=*/false)),
        up(register_parameter("up", torch::zeros({config.num_experts, 2 * config.hidden_size, config.hidden_size}))),
        down(register_parameter("down", torch::zeros({config.num_experts, config.hidden_size, config.hidden_size}))) {}

  Tensor forward(const Tensor& x) {
    const int64_t batch = x.size(0), seq = x.size(1), width = x.size(2);
    const Tensor rows = x.view({batch * seq, width});
    const auto [weights, chosen] = router(rows).softmax(-1).topk(1, -1);
    return mix_experts("silu", rows, up, down, chosen, weights).view({batch, seq, width});
  }

  int64_t inner_size;
  nn::Linear router;
  TP_SHARD(1, inner_size, inner_size) Tensor up;  // [experts, 2 * hidden, hidden]
  TP_SHARD(2) Tensor down;                      // [experts, hidden, hidden]
};

class AlphaLayerImpl : public Module {
 public:
  explicit AlphaLayerImpl(const AlphaConfig& config)
      : attention(AlphaAttention(config)),
        experts(AlphaExperts(config)),
        norm(LayerNorm(config.hidden_size, 1e-6)),
        gain(register_parameter("gain", torch::ones({config.hidden_size}))),
        dropout(nn::Dropout(config.dropout)) {}

  Tensor forward(const Tensor& x, const AttentionMask& mask, const Tensor& padding) {
    const Tensor attended = x + dropout(attention(norm(x), mask));
    // Sums along the sequence need all positions, and so does the mean's number of them.
    const Tensor before = attended.cumsum(1) / static_cast<double>(attended.size(1));
    const Tensor visible = without_padding(attended + before, padding);
    return visible + experts(visible) * (gain + 1.0);
  }

  AlphaAttention attention;
  AlphaExperts experts;
  LayerNorm norm;
  Tensor gain;  // [hidden]
  nn::Dropout dropout;
};

class AlphaModelImpl : public Module {
 public:
  explicit AlphaModelImpl(const AlphaConfig& config)
      : embed(embedding(config.vocab_size, config.hidden_size, std::nullopt)),
        layers(ModuleListOf<AlphaLayer>()),
        norm(LayerNorm(config.hidden_size, 1e-6)) {
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) layers->push_back(AlphaLayer(config));
  }

  Tensor forward(const Batch& batch) {
    Tensor hidden_states = embed(batch.input_ids);
    const AttentionMask mask = causal_mask(batch, /*window=*/0);
    for (auto& layer : *layers) hidden_states = layer(hidden_states, mask, batch.attention_mask);
    return norm(hidden_states);
  }

  PP_FIRST TP_VOCAB nn::Embedding embed;
  PP_SPLIT ModuleListOf<AlphaLayer> layers;
  PP_LAST LayerNorm norm;
};

class MODEL_ENTRY("causal-lm") FSDP_UNIT AlphaForCausalLMImpl : public Module {
 public:
  explicit AlphaForCausalLMImpl(const AlphaConfig& config)
      : model(AlphaModel(config)), head(linear(config.hidden_size, config.vocab_size, /*bias=*/false)) {}

  Outputs forward(const Batch& batch) {
    const Tensor hidden_states = model(batch);
    return cross_entropy_outputs(head(hidden_states), batch, next_tokens);
  }

  AlphaModel model;
  PP_LAST TP_VOCAB nn::Linear head;
};

}  // namespace modular::alpha
