// A decoder that predicts the next of many items, in training among a sample of them.
#pragma once

#include "modular/decoder.h"

namespace modular::items {
MODULAR_FAMILY(Items);

class MODEL_ENTRY("next-item") FSDP_UNIT ItemsForNextItemImpl : public decoder::DecoderForCausalLMImpl {
 public:
  using DecoderForCausalLMImpl::DecoderForCausalLMImpl;

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = model(batch);
    Outputs outputs;
    if (batch.labels.defined() && samples_classes()) {
      const Tensor targets = next_tokens(batch.labels);
      outputs.loss_sum = sampled_cross_entropy(hidden_states, lm_head->weight, lm_head->bias, targets, 1.0);
      outputs.token_count = count_targets(targets);
      return outputs;
    }
    const Tensor logits = lm_head(hidden_states);
    if (batch.labels.defined()) {
      const Tensor targets = next_tokens(batch.labels);
      outputs.loss_sum = cross_entropy(logits, targets);
      outputs.token_count = count_targets(targets);
    }
    if (batch.want_logits) outputs.logits = logits;
    return outputs;
  }
};
TORCH_MODULE(ItemsForNextItem);

}  // namespace modular::items
