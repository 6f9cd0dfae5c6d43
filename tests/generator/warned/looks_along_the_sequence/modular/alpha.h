// Entries of cached tasks that look along the sequence other than through functions that know the cache.
#pragma once

#include <limits>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t vocab_size = 16;
  int64_t hidden_size = 8;
};

class MODEL_ENTRY("causal-lm") FSDP_UNIT AlphaForCausalLMImpl : public Module {
 public:
  explicit AlphaForCausalLMImpl(const AlphaConfig& config)
      : embed(embedding(config.vocab_size, config.hidden_size, std::nullopt)),
        filter(register_parameter("filter", torch::zeros({config.hidden_size, 1, 4}))),
        head(linear(config.hidden_size, config.vocab_size, /*bias=*/false)) {}

  /// [batch, seq, hidden]
  Tensor states(const Batch& batch) { return causal_conv1d(embed(batch.input_ids), filter, {}); }

  Outputs forward(const Batch& batch) {
    const Tensor hidden_states = states(batch);
    const int64_t sequences = hidden_states.size(0), seq = hidden_states.size(1);
    const Tensor rows = hidden_states.view({sequences * seq, -1}).softmax(-1).view({sequences, seq, -1});
    return cross_entropy_outputs(head(hidden_states + rows), batch, next_tokens);
  }

  nn::Embedding embed;
  Tensor filter;  // [hidden, 1, kernel]
  TP_VOCAB nn::Linear head;
};

struct MODEL_ENTRY("causal-lm", "AlphaSummed") AlphaSummedForCausalLMImpl : AlphaForCausalLMImpl {
  Tensor states(const Batch& batch) { return AlphaForCausalLMImpl::states(batch).cumsum(1); }
};

struct MODEL_ENTRY("causal-lm", "AlphaShifted") AlphaShiftedForCausalLMImpl : AlphaForCausalLMImpl {
  Tensor states(const Batch& batch) { return AlphaForCausalLMImpl::states(batch).roll(1, 1); }
};

struct MODEL_ENTRY("causal-lm", "AlphaMean") AlphaMeanForCausalLMImpl : AlphaForCausalLMImpl {
  Tensor states(const Batch& batch) { return embed(batch.input_ids) + embed(batch.input_ids).mean(1, true); }
};

struct MODEL_ENTRY("causal-lm", "AlphaPlaces") AlphaPlacesForCausalLMImpl : AlphaForCausalLMImpl {
  Tensor states(const Batch& batch) {
    return embed(batch.input_ids) * torch::arange(batch.input_ids.size(1)).unsqueeze(-1);
  }
};

struct MODEL_ENTRY("causal-lm", "AlphaSharpened") AlphaSharpenedForCausalLMImpl : AlphaForCausalLMImpl {
  Tensor states(const Batch& batch) {
    return at::softplus(embed(batch.input_ids), /*beta=*/static_cast<double>(batch.input_ids.size(1)));
  }
};

struct MODEL_ENTRY("causal-lm", "AlphaLast") AlphaLastForCausalLMImpl : AlphaForCausalLMImpl {
  Tensor states(const Batch& batch) { return embed(batch.input_ids) + embed(batch.input_ids).narrow(1, 0, 1); }
};

struct MODEL_ENTRY("causal-lm", "AlphaMasked") AlphaMaskedForCausalLMImpl : AlphaForCausalLMImpl {
  Tensor states(const Batch& batch) { return embed(batch.input_ids) * batch.attention_mask.unsqueeze(-1); }
};

struct MODEL_ENTRY("causal-lm", "AlphaScaled") AlphaScaledForCausalLMImpl : AlphaForCausalLMImpl {
  Tensor states(const Batch& batch) { return embed(batch.input_ids) / batch.attention_mask.size(1); }
};

struct MODEL_ENTRY("causal-lm", "AlphaCounted") AlphaCountedForCausalLMImpl : AlphaForCausalLMImpl {
  Tensor states(const Batch& batch) { return embed(batch.input_ids) / batch.attention_mask.sum(1).view({-1, 1, 1}); }
};

/// Attention, in ways in which a forward with a cache sees something else.
struct MODEL_ENTRY("causal-lm", "AlphaAttending") AlphaAttendingForCausalLMImpl : AlphaForCausalLMImpl {
  Tensor states(const Batch& batch) {
    const Tensor x = embed(batch.input_ids).unsqueeze(1);
    return attention(query_of(batch), x, x, mask_of(batch), /*scale=*/0.5);
  }
  Tensor query_of(const Batch& batch) { return embed(batch.input_ids).unsqueeze(1); }
  AttentionMask mask_of(const Batch& batch) { return causal_mask(batch, /*window=*/4); }
};

struct MODEL_ENTRY("causal-lm", "AlphaOneQuery") AlphaOneQueryForCausalLMImpl : AlphaAttendingForCausalLMImpl {
  Tensor query_of(const Batch& batch) {
    return embed->weight.select(0, 0).view({1, 1, 1, -1}).expand({batch.input_ids.size(0), 1, 1, -1});
  }
};

struct MODEL_ENTRY("causal-lm", "AlphaReach") AlphaReachForCausalLMImpl : AlphaAttendingForCausalLMImpl {
  AttentionMask mask_of(const Batch& batch) {
    AttentionMask mask = causal_mask(batch, /*window=*/0);
    mask.reach = batch.input_ids.size(1);
    return mask;
  }
};

struct MODEL_ENTRY("causal-lm", "AlphaLater") AlphaLaterForCausalLMImpl : AlphaAttendingForCausalLMImpl {
  AttentionMask mask_of(const Batch& batch) {
    AttentionMask mask = causal_mask(batch, /*window=*/0);
    mask.causal = false;
    return mask;
  }
};

struct MODEL_ENTRY("causal-lm", "AlphaPadded") AlphaPaddedForCausalLMImpl : AlphaAttendingForCausalLMImpl {
  AttentionMask mask_of(const Batch& batch) {
    AttentionMask mask = causal_mask(batch, /*window=*/0);
    mask.padding = batch.input_ids.ne(0);
    return mask;
  }
};

struct MODEL_ENTRY("causal-lm", "AlphaCopied") AlphaCopiedForCausalLMImpl : AlphaAttendingForCausalLMImpl {
  AttentionMask mask_of(const Batch& batch) {
    Batch own = batch;
    own.attention_mask = batch.input_ids.ne(0);
    return causal_mask(own, /*window=*/0);
  }
};

/// A tensor mask, which hides keys, too.
struct MODEL_ENTRY("causal-lm", "AlphaTensorMask") AlphaTensorMaskForCausalLMImpl : AlphaForCausalLMImpl {
  Tensor states(const Batch& batch) {
    const Tensor x = embed(batch.input_ids).unsqueeze(1);
    return attention(x, x, x, mask_of(batch), /*scale=*/0.5);
  }
  Tensor visible(const Batch& batch) {
    const int64_t seq = batch.input_ids.size(1);
    return visible_keys(causal_mask(batch, /*window=*/0), seq, batch.input_ids.device());
  }
  Tensor named(const Batch& batch) { return batch.input_ids.eq(1).view({batch.input_ids.size(0), 1, -1, 1}); }
  Tensor mask_of(const Batch& batch) {
    return visible(batch).logical_and(batch.attention_mask.ne(0).view({batch.input_ids.size(0), 1, 1, -1}));
  }
};

struct MODEL_ENTRY("causal-lm", "AlphaBiases") AlphaBiasesForCausalLMImpl : AlphaTensorMaskForCausalLMImpl {
  Tensor mask_of(const Batch& batch) {
    const Tensor hidden = visible(batch).logical_not(), biases = named(batch).to(at::kFloat);
    return biases.masked_fill(hidden, std::numeric_limits<float>::lowest());
  }
};

struct MODEL_ENTRY("causal-lm", "AlphaNamed") AlphaNamedForCausalLMImpl : AlphaTensorMaskForCausalLMImpl {
  Tensor mask_of(const Batch& batch) { return visible(batch).logical_or(named(batch)); }
};

struct MODEL_ENTRY("causal-lm", "AlphaNumbers") AlphaNumbersForCausalLMImpl : AlphaTensorMaskForCausalLMImpl {
  Tensor mask_of(const Batch& batch) { return visible(batch).to(at::kFloat); }
};

struct MODEL_ENTRY("causal-lm", "AlphaKeys") AlphaKeysForCausalLMImpl : AlphaTensorMaskForCausalLMImpl {
  Tensor states(const Batch& batch) { return embed(batch.input_ids) / static_cast<double>(visible(batch).size(-1)); }
};

struct MODEL_ENTRY("causal-lm", "AlphaTurned") AlphaTurnedForCausalLMImpl : AlphaTensorMaskForCausalLMImpl {
  Tensor mask_of(const Batch& batch) { return visible(batch).flip(-1); }
};

struct MODEL_ENTRY("causal-lm", "AlphaNext") AlphaNextForCausalLMImpl : AlphaForCausalLMImpl {
  Tensor states(const Batch& batch) { return embed(next_tokens(batch.input_ids).clamp_min(0)); }
};

}  // namespace modular::alpha
