// Logits that are split within parts: gathering them would interleave the parts.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t num_words = 16;
};

class MODEL_ENTRY("causal-lm") AlphaForCausalLMImpl : public Module {
 public:
  explicit AlphaForCausalLMImpl(const AlphaConfig& config)
      : num_words(config.num_words),
        embed(register_module("embed", embedding(16, config.hidden_size, std::nullopt))),
        heads(register_module("heads", linear(config.hidden_size, 2 * config.num_words, false))) {}

  Outputs forward(const Batch& batch) {
    return {.logits = heads(embed(batch.input_ids)), .loss_sum = {}, .token_count = {}, .carried = {}};
  }

  int64_t num_words;
  nn::Embedding embed;
  TP_COLWISE_PARTS(num_words, num_words) nn::Linear heads;
};
TORCH_MODULE(AlphaForCausalLM);

}  // namespace modular::alpha
