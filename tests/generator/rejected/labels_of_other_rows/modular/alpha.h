// Losses over labels that a function or a changed batch takes from other rows.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t vocab_size = 16;
  int64_t hidden_size = 8;
};

inline Tensor reversed(const Tensor& labels) { return labels.flip(0); }

class MODEL_ENTRY("masked-lm") FSDP_UNIT AlphaForMaskedLMImpl : public Module {
 public:
  explicit AlphaForMaskedLMImpl(const AlphaConfig& config)
      : embed(register_module("embed", embedding(config.vocab_size, config.hidden_size, std::nullopt))),
        head(register_module("head", linear(config.hidden_size, config.vocab_size, false))) {}

  Outputs forward(const Batch& batch) {
    const Tensor logits = head(embed(batch.input_ids));
    Batch turned = batch, rolled = batch;
    turned.labels = batch.labels.t();
    rolled.labels = batch.labels.roll(1, 1);
    Outputs outputs = cross_entropy_outputs(logits, turned, same_labels);
    outputs = cross_entropy_outputs(logits, batch, reversed);
    outputs = cross_entropy_outputs(logits, batch, [](const Tensor& labels) { return labels.flip(0); });
    return cross_entropy_outputs(logits, rolled, &same_labels);
  }

  nn::Embedding embed;
  nn::Linear head;
};
TORCH_MODULE(AlphaForMaskedLM);

}  // namespace modular::alpha
