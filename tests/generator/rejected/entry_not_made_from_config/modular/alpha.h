// Entries are made from a config that is const, and are given a batch that is.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
};

class MODEL_ENTRY("causal-lm") AlphaForCausalLMImpl : public Module {
 public:
  explicit AlphaForCausalLMImpl(AlphaConfig& config)
      : lm_head(register_module("lm_head", linear(config.hidden_size, config.hidden_size, false))) {}

  Outputs forward(Batch& batch) { return {lm_head(batch.feature_values)}; }

  nn::Linear lm_head;
};
TORCH_MODULE(AlphaForCausalLM);

}  // namespace modular::alpha
