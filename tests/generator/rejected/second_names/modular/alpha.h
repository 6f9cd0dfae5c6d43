// Parameters that are split and have a second name: a buffer, another module, a tied layer without TIED_TO.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
};

class AlphaSplitImpl : public Module {
 public:
  explicit AlphaSplitImpl(const AlphaConfig& config)
      : up(register_module("up", linear(config.hidden_size, config.inner_size, true))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, true))),
        buffer(register_buffer("buffer", up->weight)),
        again(register_module("again", up)) {
    const Tensor positions = torch::arange(8);
    Tensor weight = positions.to(torch::kFloat32);
    weight = down->weight;
    shape = register_buffer("shape", torch::zeros_like(up->weight));
    own = register_buffer("own", positions);
    late = register_buffer("late", weight);
  }

  Tensor from_buffer(const Tensor& x) { return x * buffer.sum(); }
  Tensor from_late(const Tensor& x) { return x * late.sum(); }
  Tensor from_module(const Tensor& x) { return again(x); }
  Tensor from_its_own(const Tensor& x) { return down(up(x)) + shape.sum() + own.sum(); }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  Tensor buffer;
  nn::Linear again;
  Tensor shape;
  Tensor own;
  Tensor late;
};
TORCH_MODULE(AlphaSplit);

/// Keeps a parameter of another module.
class AlphaOtherImpl : public Module {
 public:
  explicit AlphaOtherImpl(const Tensor& weight) : kept(register_buffer("kept", weight)) {}
  Tensor forward(const Tensor& x) { return x * kept.sum(); }
  Tensor kept;
};
TORCH_MODULE(AlphaOther);

class MODEL_ENTRY("causal-lm") AlphaForCausalLMImpl : public Module {
 public:
  explicit AlphaForCausalLMImpl(const AlphaConfig& config)
      : embed(register_module("embed", embedding(16, config.hidden_size, std::nullopt))),
        split(register_module("split", AlphaSplit(config))),
        other(register_module("other", AlphaOther(split->up->weight))),
        head(register_module("head", linear(config.hidden_size, 16, false))) {
    head->weight = embed->weight;
  }
  Outputs forward(const Batch& batch) {
    Tensor x = embed(batch.input_ids);
    x = x + split->from_buffer(x) + split->from_late(x) + split->from_module(x) + split->from_its_own(x) + other(x);
    return {.logits = head(x), .loss_sum = {}, .token_count = {}, .carried = {}};
  }
  nn::Embedding embed;
  AlphaSplit split;
  AlphaOther other;
  nn::Linear head;
};
TORCH_MODULE(AlphaForCausalLM);

}  // namespace modular::alpha
