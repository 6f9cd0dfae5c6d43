// Values that each context-parallel rank has in full, or of which it has its own part only: an entry runs in one
// process, and its plan says why ranks cannot divide its sequences.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t vocab_size = 16;
  int64_t hidden_size = 8;
  int64_t max_position_embeddings = 32;
  RopeParameters rope_parameters;
};

class MODEL_ENTRY("masked-lm") FSDP_UNIT AlphaForMaskedLMImpl : public Module {
 public:
  explicit AlphaForMaskedLMImpl(const AlphaConfig& config)
      : config(config),
        embed(embedding(config.vocab_size, config.hidden_size, std::nullopt)),
        sinks(register_parameter("sinks", torch::zeros({1}))),
        head(linear(config.hidden_size, config.vocab_size, /*bias=*/false)) {}

  Outputs forward(const Batch& batch) { return cross_entropy_outputs(head(states(batch)), batch, same_labels); }

  Tensor states(const Batch& batch) {
    const Tensor x = embed(batch.input_ids).unsqueeze(1);
    return attention_with_sinks(x, x, x, mask_of(batch), /*scale=*/0.5, sinks);
  }
  AttentionMask mask_of(const Batch& batch) { return bidirectional_mask(batch); }

  AlphaConfig config;
  nn::Embedding embed;
  Tensor sinks;  // [1]
  nn::Linear head;
};

/// One query for all positions.
struct MODEL_ENTRY("masked-lm", "AlphaOneQuery") AlphaOneQueryForMaskedLMImpl : AlphaForMaskedLMImpl {
  Tensor states(const Batch& batch) {
    const Tensor keys = embed(batch.input_ids).unsqueeze(1);
    const Tensor query = embed->weight.select(0, 0).view({1, 1, 1, -1}).expand({batch.input_ids.size(0), 1, 1, -1});
    return embed(batch.input_ids) + attention(query, keys, keys, mask_of(batch), /*scale=*/0.5);
  }
};

/// A mask whose padding has a rank's positions.
struct MODEL_ENTRY("masked-lm", "AlphaPadded") AlphaPaddedForMaskedLMImpl : AlphaForMaskedLMImpl {
  AttentionMask mask_of(const Batch& batch) {
    AttentionMask mask = bidirectional_mask(batch);
    mask.padding = batch.input_ids.ne(0);
    return mask;
  }
};

/// A batch whose attention_mask has all positions.
struct MODEL_ENTRY("masked-lm", "AlphaCopied") AlphaCopiedForMaskedLMImpl : AlphaForMaskedLMImpl {
  AttentionMask mask_of(const Batch& batch) {
    Batch own = batch;
    own.attention_mask = key_mask(batch).view({batch.input_ids.size(0), -1});
    return bidirectional_mask(own);
  }
};

/// A batch whose attention_mask has a rank's positions, as it should.
struct MODEL_ENTRY("masked-lm", "AlphaKnown") AlphaKnownForMaskedLMImpl : AlphaForMaskedLMImpl {
  AttentionMask mask_of(const Batch& batch) {
    Batch own = batch;
    own.attention_mask = batch.input_ids.ne(0);
    return bidirectional_mask(own);
  }
};

/// Numbers of a rank's positions.
struct MODEL_ENTRY("masked-lm", "AlphaReach") AlphaReachForMaskedLMImpl : AlphaForMaskedLMImpl {
  AttentionMask mask_of(const Batch& batch) {
    AttentionMask mask = bidirectional_mask(batch);
    mask.reach = batch.input_ids.size(1);
    return mask;
  }
};

struct MODEL_ENTRY("masked-lm", "AlphaTables") AlphaTablesForMaskedLMImpl : AlphaForMaskedLMImpl {
  Tensor states(const Batch& batch) {
    RopeParameters rope = config.rope_parameters;
    rope.rope_type = "linear";
    rope.factor = static_cast<double>(batch.input_ids.size(1));
    const Tensor x = embed(batch.input_ids).unsqueeze(1);
    const auto [cos, sin] = rotary_tables(rope, /*head_dim=*/8, config.max_position_embeddings, batch, at::kFloat);
    const Tensor turned = rotary(x, cos, sin);
    return attention(turned, turned, x, mask_of(batch), /*scale=*/0.5);
  }
};

struct MODEL_ENTRY("masked-lm", "AlphaSharpened") AlphaSharpenedForMaskedLMImpl : AlphaForMaskedLMImpl {
  Tensor states(const Batch& batch) {
    const Tensor x = AlphaForMaskedLMImpl::states(batch);
    return at::softplus(x, /*beta=*/static_cast<double>(x.size(1)));
  }
};

}  // namespace modular::alpha
