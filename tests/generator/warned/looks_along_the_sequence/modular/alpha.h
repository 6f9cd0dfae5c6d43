// Entries of cached tasks that look along the sequence other than through functions that know the cache.
#pragma once

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

}  // namespace modular::alpha
