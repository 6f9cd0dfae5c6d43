// Numbers of positions that become fractions, and parameters that reach a rank's positions by other names.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t vocab_size = 16;
  int64_t hidden_size = 8;
  int64_t num_hidden_layers = 2;
  bool tie_word_embeddings = true;
};

/// The mean's factor of each position.
inline Tensor averaged(const Tensor& x) { return x * (1.0 / x.size(1)); }

class AlphaLayerImpl : public Module {
 public:
  explicit AlphaLayerImpl(const AlphaConfig& config)
      : norm(LayerNorm(config.hidden_size, 1e-6)),
        up(linear(config.hidden_size, 4 * config.hidden_size, /*bias=*/false)),
        down(linear(4 * config.hidden_size, config.hidden_size, /*bias=*/true)),
        gain(register_parameter("gain", torch::ones({config.hidden_size}))),
        last_gain(register_parameter("last_gain", torch::ones({config.hidden_size}))),
        piece(register_parameter("piece", torch::ones({4}))) {}

  Tensor forward(const Tensor& x) {
    const int64_t batch = x.size(0), seq = x.size(1);
    // A view reads a rank's number of positions; a fraction is of all.
    const Tensor rows = x.view({batch * seq, -1}).tanh().view({batch, seq, -1});
    const double length = static_cast<double>(seq);
    const double most = seq;
    const Tensor scaled = averaged(x) + rows * (1 / length) + rows * (0.35 * seq) + rows / std::min(most, 3.0);
    Tensor weights = torch::ones_like(gain);
    weights.slice(0, 0, 4) *= piece;
    const Tensor weighted = scaled * gain + x * weights + x * norm->weight.view({1, 1, -1}).sigmoid();
    const Tensor last = x * last_gain;
    Tensor copied = torch::zeros_like(rows);
    copied.copy_(rows);
    copied *= gain;
    return weighted + last + copied + down(up(norm(x)).relu());
  }

  void reset_parameters() override {
    Module::reset_parameters();
    init::normal_(gain, 0.5, 0.2);
    init::normal_(piece, 0.5, 0.2);
  }

  LayerNorm norm;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  Tensor gain;
  TIED_TO(gain) Tensor last_gain;
  Tensor piece;
};

class AlphaModelImpl : public Module {
 public:
  explicit AlphaModelImpl(const AlphaConfig& config)
      : embed(embedding(config.vocab_size, config.hidden_size, std::nullopt)),
        layers(ModuleListOf<AlphaLayer>()),
        norm(LayerNorm(config.hidden_size, 1e-6)) {
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) layers->push_back(AlphaLayer(config));
  }

  Tensor forward(const Batch& batch) {
    Tensor hidden_states = embed(batch.input_ids);
    for (auto& layer : *layers) hidden_states = layer(hidden_states);
    return norm(hidden_states);
  }

  PP_FIRST TP_VOCAB nn::Embedding embed;
  PP_SPLIT ModuleListOf<AlphaLayer> layers;
  PP_LAST LayerNorm norm;
};

class MODEL_ENTRY("causal-lm") FSDP_UNIT AlphaForCausalLMImpl : public Module {
 public:
  explicit AlphaForCausalLMImpl(const AlphaConfig& config)
      : model(AlphaModel(config)), head(linear(config.hidden_size, config.vocab_size, /*bias=*/false)) {}

  Outputs forward(const Batch& batch) {
    const Tensor hidden_states = model(batch);
    return cross_entropy_outputs(head(hidden_states), batch, next_tokens);
  }

  AlphaModel model;
  PP_LAST TP_VOCAB nn::Linear head;
};

}  // namespace modular::alpha
