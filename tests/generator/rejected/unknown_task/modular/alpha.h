// A task that the runtime does not know, and a name with a quote.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
};

class MODEL_ENTRY("casual-lm", "Alpha\"Model") AlphaForCausalLMImpl : public Module {
 public:
  explicit AlphaForCausalLMImpl(const AlphaConfig& config)
      : embed(register_module("embed", embedding(16, config.hidden_size, std::nullopt))) {}
  Outputs forward(const Batch& batch) {
    Outputs outputs;
    outputs.logits = embed(batch.input_ids);
    return outputs;
  }
  nn::Embedding embed;
};
TORCH_MODULE(AlphaForCausalLM);

}  // namespace modular::alpha
