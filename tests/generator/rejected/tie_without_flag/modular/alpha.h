// A tied head whose config does not say whether it is.
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
      : embed_tokens(register_module("embed_tokens", embedding(config.vocab_size, config.hidden_size, std::nullopt))),
        lm_head(register_module("lm_head", linear(config.hidden_size, config.vocab_size, /*bias=*/false))) {}

  Outputs forward(const Batch& batch) {
    Outputs outputs;
    outputs.logits = lm_head(embed_tokens(batch.input_ids));
    return outputs;
  }

  nn::Embedding embed_tokens;
  TIED_TO(embed_tokens->weight) nn::Linear lm_head;
};
TORCH_MODULE(AlphaForCausalLM);

}  // namespace modular::alpha
