// Shares of a count that are counted, or referred to, and a count that a constructor changes.
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
        few_heads(config.num_heads),
        half_heads(config.num_heads * 0.5),
        referred_heads(config.num_heads),
        pointed_heads(config.num_heads) {
    few_heads -= 2;
    int64_t& referred = referred_heads;
    referred -= 2;
    int64_t* pointed = &pointed_heads;
    *pointed -= 2;
  }

  Tensor counted(const Tensor& x) {
    int64_t more = num_heads;
    ++more;
    return x * (more * 4 == num_heads * 5 ? 2.0 : 3.0);
  }
  Tensor by_auto(const Tensor& x) {
    auto more = num_heads;
    more *= 2;
    return x;
  }
  Tensor by_reference(const Tensor& x) {
    int64_t& heads = num_heads;
    return down(up(x).view({x.size(0), x.size(1), heads, -1}).flatten(2));
  }
  Tensor by_pointer(const Tensor& x) {
    const int64_t* heads = &num_heads;
    return down(up(x).view({x.size(0), x.size(1), *heads, -1}).flatten(2));
  }
  int64_t same(int64_t& count) { return count; }
  Tensor by_parameter(const Tensor& x) {
    return down(up(x).view({x.size(0), x.size(1), same(num_heads), -1}).flatten(2));
  }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  TP_LOCAL int64_t num_heads;
  TP_LOCAL int64_t few_heads;
  TP_LOCAL int64_t half_heads;
  TP_LOCAL int64_t referred_heads;
  TP_LOCAL int64_t pointed_heads;
};
TORCH_MODULE(AlphaLayers);

class MODEL_ENTRY("causal-lm") AlphaForCausalLMImpl : public Module {
 public:
  explicit AlphaForCausalLMImpl(const AlphaConfig& config)
      : embed(register_module("embed", embedding(16, config.hidden_size, std::nullopt))),
        layers(register_module("layers", AlphaLayers(config))) {}
  Outputs forward(const Batch& batch) {
    const Tensor x = embed(batch.input_ids);
    return {.logits = layers->counted(x) + layers->by_auto(x) + layers->by_reference(x) + layers->by_pointer(x) +
                      layers->by_parameter(x),
            .loss_sum = {},
            .token_count = {},
            .carried = {}};
  }
  nn::Embedding embed;
  AlphaLayers layers;
};
TORCH_MODULE(AlphaForCausalLM);

}  // namespace modular::alpha
