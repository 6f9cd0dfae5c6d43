// Counts of key and value heads that several ranks may not share, because all of them are read: the plans
// have no Divides::shared.
#pragma once

#include "modular/modular.h"

namespace modular::own_heads {
MODULAR_FAMILY(OwnHeads);

struct OwnHeadsConfig : Config {
  int64_t vocab_size = 16;
  int64_t hidden_size = 8;
  int64_t num_heads = 4;
  int64_t num_summed_heads = 4;
  int64_t num_shown_heads = 4;
  int64_t head_dim = 2;
};

/// The keys of all heads are summed, too. The layer that computes them names the config's field.
class OwnHeadsSummedImpl : public Module {
 public:
  explicit OwnHeadsSummedImpl(const OwnHeadsConfig& config)
      : num_heads(config.num_heads),
        num_summed_heads(config.num_summed_heads),
        head_dim(config.head_dim),
        query(linear(config.hidden_size, config.num_heads * config.head_dim, false)),
        key(linear(config.hidden_size, config.num_summed_heads * config.head_dim, false)),
        output(linear(config.num_heads * config.head_dim, config.hidden_size, false)),
        summary(register_parameter("summary",
                                   torch::ones({config.num_summed_heads * config.head_dim, config.hidden_size}))) {}

  Tensor forward(const Tensor& x, const AttentionMask& mask) {
    const int64_t batch = x.size(0), seq = x.size(1);
    const Tensor features = key(x);
    const Tensor queries = query(x).view({batch, seq, num_heads, head_dim}).transpose(1, 2);
    const Tensor keys = features.view({batch, seq, num_summed_heads, head_dim}).transpose(1, 2);
    return output(attention(queries, keys, keys, mask, 1.0)) + features.matmul(summary);
  }

  TP_LOCAL int64_t num_heads;
  TP_LOCAL int64_t num_summed_heads;
  int64_t head_dim;
  TP_COLWISE nn::Linear query;
  TP_COLWISE nn::Linear key;
  TP_ROWWISE nn::Linear output;
  TP_REDUCE(0) Tensor summary;
};

class MODEL_ENTRY("causal-lm") OwnHeadsForCausalLMImpl : public Module {
 public:
  explicit OwnHeadsForCausalLMImpl(const OwnHeadsConfig& config)
      : embed(embedding(config.vocab_size, config.hidden_size, std::nullopt)),
        summed(OwnHeadsSummed(config)),
        head(linear(config.hidden_size, config.vocab_size, false)) {}

  Outputs forward(const Batch& batch) {
    return cross_entropy_outputs(head(summed(embed(batch.input_ids), causal_mask(batch, 0))), batch, next_tokens);
  }

  nn::Embedding embed;
  OwnHeadsSummed summed;
  nn::Linear head;
};

/// The keys of all heads are the logits.
class MODEL_ENTRY("token-classification") OwnHeadsForTokenClassificationImpl : public Module {
 public:
  explicit OwnHeadsForTokenClassificationImpl(const OwnHeadsConfig& config)
      : num_heads(config.num_heads),
        num_shown_heads(config.num_shown_heads),
        head_dim(config.head_dim),
        embed(embedding(config.vocab_size, config.hidden_size, std::nullopt)),
        query(linear(config.hidden_size, config.num_heads * config.head_dim, false)),
        key(linear(config.hidden_size, config.num_shown_heads * config.head_dim, false)),
        output(linear(config.num_heads * config.head_dim, config.hidden_size, false)) {}

  Outputs forward(const Batch& batch) {
    const Tensor x = embed(batch.input_ids);
    const int64_t size = x.size(0), seq = x.size(1);
    const Tensor features = key(x);
    const Tensor queries = query(x).view({size, seq, num_heads, head_dim}).transpose(1, 2);
    const Tensor keys = features.view({size, seq, num_shown_heads, head_dim}).transpose(1, 2);
    const Tensor attended = output(attention(queries, keys, keys, causal_mask(batch, 0), 1.0));
    Outputs outputs;
    outputs.loss_sum = cross_entropy(attended, batch.labels);
    outputs.token_count = count_targets(batch.labels);
    if (batch.want_logits) outputs.logits = features;
    return outputs;
  }

  TP_LOCAL int64_t num_heads;
  TP_LOCAL int64_t num_shown_heads;
  int64_t head_dim;
  nn::Embedding embed;
  TP_COLWISE nn::Linear query;
  TP_COLWISE nn::Linear key;
  TP_ROWWISE nn::Linear output;
};

}  // namespace modular::own_heads
