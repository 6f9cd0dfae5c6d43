// The base of beta.h.
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
        head(linear(config.hidden_size, config.vocab_size, /*bias=*/false)) {}

  Tensor project(const Tensor& hidden_states) { return head(hidden_states); }

  Outputs forward(const Batch& batch) {
    Outputs outputs;
    outputs.logits = project(embed(batch.input_ids));
    return outputs;
  }

  nn::Embedding embed;
  nn::Linear head;
};

}  // namespace modular::alpha
