// The number of a layer inside of the walk over the layers, with tensor parallelism and pipeline stages.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t vocab_size = 16;
  int64_t hidden_size = 8;
  int64_t intermediate_size = 16;
  int64_t num_hidden_layers = 4;
  std::vector<std::string> layer_types = {"wide", "wide", "narrow", "narrow"};
};

/// A feed-forward network on a residual path.
class FSDP_UNIT AlphaLayerImpl : public Module {
 public:
  explicit AlphaLayerImpl(const AlphaConfig& config)
      : up(linear(config.hidden_size, config.intermediate_size, /*bias=*/false)),
        down(linear(config.intermediate_size, config.hidden_size, /*bias=*/false)) {}

  Tensor forward(const Tensor& x, double scale) { return x + down(at::silu(up(x) * scale)); }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};

class MODEL_ENTRY("causal-lm") FSDP_UNIT AlphaForCausalLMImpl : public Module {
 public:
  explicit AlphaForCausalLMImpl(const AlphaConfig& config)
      : config(config),
        embed(embedding(config.vocab_size, config.hidden_size, std::nullopt)),
        layers(ModuleListOf<AlphaLayer>()),
        head(linear(config.hidden_size, config.vocab_size, /*bias=*/false)) {
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) layers->push_back(AlphaLayer(config));
  }

  Outputs forward(const Batch& batch) {
    Tensor hidden_states = embed(batch.input_ids);
    for (auto& layer : *layers) {
      const int64_t number = layers->index_of(layer);
      const double scale = config.layer_types.at(number) == "wide" ? 1.0 / (number + 1) : 1.0;
      hidden_states = layer(hidden_states, scale);
    }
    Tensor logits = head(hidden_states);
    Outputs outputs;
    if (batch.labels.defined()) {
      const Tensor targets = next_tokens(batch.labels);
      outputs.loss_sum = cross_entropy(logits, targets);
      outputs.token_count = count_targets(targets);
    }
    if (batch.want_logits) outputs.logits = logits;
    return outputs;
  }

  AlphaConfig config;
  PP_FIRST TP_VOCAB nn::Embedding embed;
  PP_SPLIT ModuleListOf<AlphaLayer> layers;
  PP_LAST TP_VOCAB nn::Linear head;
};

}  // namespace modular::alpha
