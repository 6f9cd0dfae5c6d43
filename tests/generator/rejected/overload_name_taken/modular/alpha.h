// A method whose name is that of the overload for split values that modgen adds to another.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
  int64_t num_heads = 4;
};

class AlphaLayersImpl : public Module {
 public:
  explicit AlphaLayersImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))),
        num_heads(config.num_heads),
        weight(register_parameter("weight", torch::ones({4}))) {}

  Tensor normed(const Tensor& x) { return x * weight; }
  Tensor normed_on_shards(const Tensor& x) { return x * 5.0; }
  Tensor forward(const Tensor& x) {
    const Tensor queries = up(x).view({x.size(0), x.size(1), num_heads, -1});
    return x + down(normed(queries).flatten(2)) + normed(x.view({x.size(0), x.size(1), 2, 4})).flatten(2);
  }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  TP_LOCAL int64_t num_heads;
  Tensor weight;
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
