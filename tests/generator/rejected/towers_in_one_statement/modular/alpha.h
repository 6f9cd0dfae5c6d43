// What crosses from the first tower to the last one has no name.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t vocab_size = 16;
  int64_t hidden_size = 8;
  int64_t num_hidden_layers = 2;
};

class FSDP_UNIT AlphaLayerImpl : public Module {
 public:
  explicit AlphaLayerImpl(const AlphaConfig& config)
      : up(register_module("up", linear(config.hidden_size, config.hidden_size, false))),
        down(register_module("down", linear(config.hidden_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x) { return x + down(at::silu(up(x))); }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaLayer);

class AlphaTowerImpl : public Module {
 public:
  explicit AlphaTowerImpl(const AlphaConfig& config)
      : embed(register_module("embed", embedding(config.vocab_size, config.hidden_size, std::nullopt))),
        layers(register_module("layers", ModuleListOf<AlphaLayer>())) {
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) layers->push_back(AlphaLayer(config));
  }

  Tensor forward(const Tensor& ids) {
    Tensor hidden_states = embed(ids);
    for (auto& layer : *layers) hidden_states = layer(hidden_states);
    return hidden_states;
  }

  TP_VOCAB nn::Embedding embed;
  ModuleListOf<AlphaLayer> layers;
};
TORCH_MODULE(AlphaTower);

class MODEL_ENTRY("seq2seq") FSDP_UNIT AlphaForPairsImpl : public Module {
 public:
  explicit AlphaForPairsImpl(const AlphaConfig& config)
      : left(register_module("left", AlphaTower(config))),
        right(register_module("right", AlphaTower(config))),
        head(register_module("head", linear(config.hidden_size, config.vocab_size, false))) {}

  Outputs forward(const Batch& batch) {
    const Tensor logits = head(right(batch.decoder_input_ids) + left(batch.input_ids));
    Outputs outputs;
    if (batch.labels.defined()) {
      outputs.loss_sum = cross_entropy(logits, batch.labels);
      outputs.token_count = count_targets(batch.labels);
    }
    if (batch.want_logits) outputs.logits = logits;
    return outputs;
  }

  PP_FIRST AlphaTower left;
  PP_LAST AlphaTower right;
  PP_LAST TP_VOCAB nn::Linear head;
};
TORCH_MODULE(AlphaForPairs);

}  // namespace modular::alpha
