// Alternatives of a OneOf whose parameters have one name and are split in different ways.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
  bool side_by_side = false;
};

class AlphaPartsImpl : public Module {
 public:
  explicit AlphaPartsImpl(const AlphaConfig& config)
      : inner_size(config.inner_size),
        both(register_module("both", linear(config.hidden_size, 2 * config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}
  Tensor forward(const Tensor& x) {
    const auto gate_up = both(x).chunk(2, -1);
    return down(gate_up[0] * gate_up[1]);
  }
  int64_t inner_size;
  TP_COLWISE_PARTS(inner_size, inner_size) nn::Linear both;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaParts);

class AlphaPairsImpl : public Module {
 public:
  explicit AlphaPairsImpl(const AlphaConfig& config)
      : inner_size(config.inner_size),
        both(register_module("both", linear(config.hidden_size, config.inner_size * 2, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}
  Tensor forward(const Tensor& x) {
    const auto gate_up = both(x).view({x.size(0), x.size(1), inner_size, 2}).unbind(-1);
    return down(gate_up[0] * gate_up[1]);
  }
  TP_LOCAL int64_t inner_size;
  TP_COLWISE nn::Linear both;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaPairs);

class AlphaWholeImpl : public Module {
 public:
  explicit AlphaWholeImpl(const AlphaConfig& config)
      : down(register_module("down", linear(config.hidden_size, config.hidden_size, false))) {}
  Tensor forward(const Tensor& x) { return down(x); }
  nn::Linear down;
};
TORCH_MODULE(AlphaWhole);

class MODEL_ENTRY("causal-lm") AlphaForCausalLMImpl : public Module {
 public:
  explicit AlphaForCausalLMImpl(const AlphaConfig& config)
      : embed(register_module("embed", embedding(16, config.hidden_size, std::nullopt))) {
    if (config.side_by_side)
      first = register_module("first", AlphaPairs(config));
    else
      first = register_module("first", AlphaParts(config));
    if (config.side_by_side)
      second = register_module("second", AlphaPairs(config));
    else
      second = register_module("second", AlphaWhole(config));
  }
  Outputs forward(const Batch& batch) {
    return {.logits = second(first(embed(batch.input_ids))), .loss_sum = {}, .token_count = {}, .carried = {}};
  }
  nn::Embedding embed;
  OneOf<AlphaPairs, AlphaParts> first{nullptr};
  OneOf<AlphaPairs, AlphaWhole> second{nullptr};
};
TORCH_MODULE(AlphaForCausalLM);

}  // namespace modular::alpha
