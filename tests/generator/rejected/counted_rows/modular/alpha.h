// Results that depend on the number of rows of a rank or micro-batch: gradients of values that have none, numbers in
// structs, and values of one row, which padding that may be undefined gives no rows.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t vocab_size = 16;
  int64_t hidden_size = 8;
};

class MODEL_ENTRY("masked-lm") FSDP_UNIT AlphaForMaskedLMImpl : public Module {
 public:
  explicit AlphaForMaskedLMImpl(const AlphaConfig& config)
      : embed(embedding(config.vocab_size, config.hidden_size, std::nullopt)),
        gain(register_parameter("gain", torch::ones({config.hidden_size}))),
        head(linear(config.hidden_size, config.vocab_size, /*bias=*/false)) {}

  Outputs forward(const Batch& batch) { return cross_entropy_outputs(head(states(batch)), batch, same_labels); }

  Tensor states(const Batch& batch) {
    const Tensor x = embed(batch.input_ids).unsqueeze(1);
    return attention(x, x, x, mask_of(batch), /*scale=*/0.5) * gain;
  }
  AttentionMask mask_of(const Batch& batch) { return bidirectional_mask(batch); }

  nn::Embedding embed;
  Tensor gain;  // [hidden]
  nn::Linear head;
};

struct MODEL_ENTRY("masked-lm", "AlphaHooked") AlphaHookedForMaskedLMImpl : AlphaForMaskedLMImpl {
  Tensor states(const Batch& batch) {
    const Tensor weight = gain * 2.0;
    weight.register_hook([](const Tensor& gradient) { return gradient / gradient.norm(); });
    return embed(batch.input_ids) * weight;
  }
};

struct MODEL_ENTRY("masked-lm", "AlphaReach") AlphaReachForMaskedLMImpl : AlphaForMaskedLMImpl {
  AttentionMask mask_of(const Batch& batch) {
    AttentionMask mask = bidirectional_mask(batch);
    mask.reach = batch.input_ids.size(0);
    return mask;
  }
};

struct MODEL_ENTRY("masked-lm", "AlphaPlaces") AlphaPlacesForMaskedLMImpl : AlphaForMaskedLMImpl {
  Outputs forward(const Batch& batch) {
    const Tensor places = embed(position_ids(batch).clamp_max(15));
    Outputs outputs = cross_entropy_outputs(head(states(batch) + places), batch, same_labels);
    if (!batch.labels.defined()) return outputs;
    outputs.loss_sum = outputs.loss_sum + without_padding(places, batch.attention_mask).square().sum();
    return outputs;
  }
};

}  // namespace modular::alpha
