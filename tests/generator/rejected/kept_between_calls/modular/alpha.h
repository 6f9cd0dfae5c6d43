// State that a method keeps from call to call, in whatever it is kept.
#pragma once

#include <optional>
#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
  int64_t num_heads = 4;
  int64_t head_dim = 2;
};

class AlphaLayersImpl : public Module {
 public:
  explicit AlphaLayersImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x) {
    static int64_t calls = 0;
    ++calls;
    all.emplace_back(x);
    if (!first) first.emplace(x);
    const auto count = [] {
      static int64_t times = 0;
      return ++times;
    };
    x.set_data(x * 2.0);
    return down(gate(x) * up(x)) * static_cast<double>(count());
  }

  Tensor of_first_layer(const Tensor& x) {
    static const double kept = scale * 2.0;
    return x * kept;
  }
  Tensor of_first_batch(const Tensor& x) {
    static const int64_t rows = x.size(0);
    return x * static_cast<double>(rows);
  }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  std::vector<Tensor> all;
  std::optional<Tensor> first;
  double scale = 0.5;
};
TORCH_MODULE(AlphaLayers);

class MODEL_ENTRY("causal-lm") AlphaForCausalLMImpl : public Module {
 public:
  explicit AlphaForCausalLMImpl(const AlphaConfig& config)
      : embed(register_module("embed", embedding(16, config.hidden_size, std::nullopt))),
        layers(register_module("layers", AlphaLayers(config))) {}
  Outputs forward(const Batch& batch) {
    return {.logits = layers(embed(batch.input_ids)), .loss_sum = {}, .token_count = {}, .carried = {}};
  }
  nn::Embedding embed;
  AlphaLayers layers;
};
TORCH_MODULE(AlphaForCausalLM);

}  // namespace modular::alpha
