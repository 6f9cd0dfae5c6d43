// A loss over a sample of the classes: rows of a split layer are looked up, and all else is whole.
#pragma once

#include "modular/tiny.h"

namespace modular::of_samples {
MODULAR_FAMILY(OfSamples);

struct MODEL_ENTRY("causal-lm") FSDP_UNIT OfSamplesForCausalLMImpl : tiny::TinyForCausalLMImpl {
  using TinyForCausalLMImpl::TinyForCausalLMImpl;

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = model(batch);
    Outputs outputs;
    if (batch.labels.defined()) {
      const Tensor targets = next_tokens(batch.labels);
      outputs.token_count = count_targets(targets);
      outputs.loss_sum = samples_classes()
                             ? sampled_cross_entropy(hidden_states, lm_head->weight, lm_head->bias, targets, 1.0)
                             : cross_entropy(lm_head(hidden_states), targets);
    }
    if (batch.want_logits) outputs.logits = lm_head(hidden_states);
    return outputs;
  }
};
TORCH_MODULE(OfSamplesForCausalLM);

}  // namespace modular::of_samples
