// Functions for which a rank's slice of a vocabulary would have to begin where equal slices do.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t vocab_size = 18;
  int64_t hidden_size = 8;
};

class MODEL_ENTRY("causal-lm") FSDP_UNIT AlphaForCausalLMImpl : public Module {
 public:
  explicit AlphaForCausalLMImpl(const AlphaConfig& config)
      : embed(register_module("embed", embedding(config.vocab_size, config.hidden_size, std::nullopt))),
        head(register_module("head", linear(config.hidden_size, config.vocab_size, true))),
        other_head(register_module("other_head", linear(config.hidden_size, config.vocab_size, false))),
        dropout(register_module("dropout", nn::Dropout(0.1))) {}

  Outputs forward(const Batch& batch) {
    const Tensor hidden_states = embed(batch.input_ids);
    const Tensor logits = torch::tanh(head(hidden_states)) * 30.0;
    const Tensor of_weight = hidden_states.matmul(embed->weight.t());
    Outputs outputs;
    outputs.loss_sum = cross_entropy(dropout(logits), batch.labels) + cross_entropy(dropout(of_weight), batch.labels) +
                       cross_entropy(rms_norm(logits, head->bias, 1e-6), batch.labels) +
                       cross_entropy(dropout(other_head(hidden_states)), batch.labels);
    outputs.token_count = count_targets(batch.labels);
    outputs.logits = dropout(tp::gather(logits));
    return outputs;
  }

  TP_VOCAB nn::Embedding embed;
  TP_VOCAB nn::Linear head;
  TP_COLWISE nn::Linear other_head;
  nn::Dropout dropout;
};
TORCH_MODULE(AlphaForCausalLM);

}  // namespace modular::alpha
