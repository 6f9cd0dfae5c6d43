// A number computed from all positions is added to each: it meets all positions, also with sequence parallelism.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t vocab_size = 16;
  int64_t hidden_size = 8;
  int64_t num_hidden_layers = 2;
};

class AlphaLayerImpl : public Module {
 public:
  explicit AlphaLayerImpl(const AlphaConfig& config)
      : up(linear(config.hidden_size, config.hidden_size, /*bias=*/false)),
        down(linear(config.hidden_size, config.hidden_size, /*bias=*/false)) {}

  /// Next to a rank's positions, the mean would have a part of its gradient there, and all of it without sequence
  /// parallelism.
  Tensor forward(const Tensor& x) { return x + down(torch::tanh(up(x))) + x.mean({1, 2}, true); }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};

class MODEL_ENTRY("causal-lm") FSDP_UNIT AlphaForCausalLMImpl : public Module {
 public:
  explicit AlphaForCausalLMImpl(const AlphaConfig& config)
      : embed(embedding(config.vocab_size, config.hidden_size, std::nullopt)),
        layers(ModuleListOf<AlphaLayer>()),
        head(linear(config.hidden_size, config.vocab_size, /*bias=*/false)) {
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) layers->push_back(AlphaLayer(config));
  }

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = embed(batch.input_ids);
    for (auto& layer : *layers) hidden_states = layer(hidden_states);
    const Tensor logits = head(hidden_states);
    Outputs outputs;
    if (batch.labels.defined()) {
      const Tensor targets = next_tokens(batch.labels);
      outputs.loss_sum = cross_entropy(logits, targets);
      outputs.token_count = count_targets(targets);
    }
    if (batch.want_logits) outputs.logits = logits;
    return outputs;
  }

  PP_FIRST TP_VOCAB nn::Embedding embed;
  PP_SPLIT ModuleListOf<AlphaLayer> layers;
  PP_LAST TP_VOCAB nn::Linear head;
};

}  // namespace modular::alpha
