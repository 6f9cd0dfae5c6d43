// A decoder that attends to an encoder's tokens, with biases by distance.
#pragma once

#include <cmath>
#include <limits>

#include "modular/modular.h"

namespace modular::cross {
MODULAR_FAMILY(Cross);

struct CrossConfig : Config {
  int64_t vocab_size = 256;
  int64_t hidden_size = 64;
  int64_t num_attention_heads = 4;
  int64_t max_distance = 32;
  int64_t start_token_id = 1;
  int64_t end_token_id = 2;
  int64_t pad_token_id = 0;
  double initializer_range = 0.02;
};

class CrossAttentionImpl : public Module {
 public:
  explicit CrossAttentionImpl(const CrossConfig& config)
      : num_heads(config.num_attention_heads),
        head_dim(config.hidden_size / config.num_attention_heads),
        scaling(1.0 / std::sqrt(static_cast<double>(head_dim))),
        query(register_module("query", linear(config.hidden_size, num_heads * head_dim, /*bias=*/false))),
        key(register_module("key", linear(config.hidden_size, num_heads * head_dim, /*bias=*/false))),
        value(register_module("value", linear(config.hidden_size, num_heads * head_dim, /*bias=*/false))),
        output(register_module("output", linear(num_heads * head_dim, config.hidden_size, /*bias=*/false))) {}

  /// `hidden_states` [batch, seq, hidden] attend to `states` [batch, other_seq, hidden], with biases of their scores.
  Tensor forward(const Tensor& hidden_states, const Tensor& states, const Tensor& biases) {
    const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1), other_seq = states.size(1);
    const Tensor q = query(hidden_states).view({batch, seq, num_heads, head_dim}).transpose(1, 2);
    const Tensor k = key(states).view({batch, other_seq, num_heads, head_dim}).transpose(1, 2);
    const Tensor v = value(states).view({batch, other_seq, num_heads, head_dim}).transpose(1, 2);
    return output(attention_with_biases(q, k, v, biases, scaling));
  }

  TP_LOCAL int64_t num_heads;
  int64_t head_dim;
  double scaling;
  TP_COLWISE nn::Linear query;
  TP_COLWISE nn::Linear key;
  TP_COLWISE nn::Linear value;
  TP_ROWWISE nn::Linear output;
};
TORCH_MODULE(CrossAttention);

class MODEL_ENTRY("seq2seq") FSDP_UNIT CrossForConditionalGenerationImpl : public Module {
 public:
  explicit CrossForConditionalGenerationImpl(const CrossConfig& config)
      : Module(config.initializer_range),
        config(config),
        embed(register_module("embed", embedding(config.vocab_size, config.hidden_size, std::nullopt))),
        distance_biases(register_module("distance_biases",
                                        embedding(config.max_distance + 1, config.num_attention_heads, std::nullopt))),
        self_attention(register_module("self_attention", CrossAttention(config))),
        cross_attention(register_module("cross_attention", CrossAttention(config))),
        lm_head(register_module("lm_head", linear(config.hidden_size, config.vocab_size, /*bias=*/false))) {}

  /// Biases of the decoder's self-attention over `ids` by the distance to earlier keys: [batch or 1, heads, seq, seq].
  Tensor biases(const Tensor& ids, const Tensor& padding) {
    const Tensor rows = distance_biases(key_distances(ids).neg().clamp(0, config.max_distance));
    const Tensor visible = visible_keys(causal_mask(padding, /*window=*/0), ids.size(1), ids.device());
    const Tensor bias = rows.permute({2, 0, 1}).unsqueeze(0);
    return bias.masked_fill(visible.logical_not(), std::numeric_limits<float>::lowest()).contiguous();
  }

  Outputs forward(const Batch& batch) {
    Tensor ids = batch.decoder_input_ids;
    if (!ids.defined()) ids = previous_tokens(batch.labels, config.start_token_id, config.pad_token_id);
    const Tensor padded = key_mask(batch).logical_not();
    const Tensor to_encoder =
        at::zeros_like(padded, at::kFloat).masked_fill(padded, std::numeric_limits<float>::lowest());
    const Tensor states = embed(batch.input_ids);
    Tensor hidden_states = embed(ids);
    hidden_states =
        hidden_states + self_attention(hidden_states, hidden_states, biases(ids, batch.decoder_attention_mask));
    hidden_states = hidden_states + cross_attention(hidden_states, states, to_encoder);
    return cross_entropy_outputs(lm_head(hidden_states), batch, same_labels);
  }

  CrossConfig config;
  nn::Embedding embed;
  TP_SHARD(1) nn::Embedding distance_biases;
  CrossAttention self_attention;
  CrossAttention cross_attention;
  TP_VOCAB nn::Linear lm_head;
};
TORCH_MODULE(CrossForConditionalGeneration);

class MODEL_ENTRY("sentence-embedding") FSDP_UNIT CrossForSentenceEmbeddingImpl : public Module {
 public:
  explicit CrossForSentenceEmbeddingImpl(const CrossConfig& config)
      : Module(config.initializer_range),
        config(config),
        embed(register_module("embed", embedding(config.vocab_size, config.hidden_size, std::nullopt))) {}

  Outputs forward(const Batch& batch) {
    const Tensor is_end = batch.input_ids.eq(config.end_token_id).to(at::kLong);
    const Tensor ends = (is_end * position_ids(batch.input_ids)).amax(-1);
    return sentence_outputs(tokens_at(embed(batch.input_ids), ends), batch);
  }

  CrossConfig config;
  nn::Embedding embed;
};
TORCH_MODULE(CrossForSentenceEmbedding);

}  // namespace modular::cross
