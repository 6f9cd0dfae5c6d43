// Values that change through references: what the variable holds then is what counts.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
};

class AlphaOutImpl : public Module {
 public:
  explicit AlphaOutImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  void scores(const Tensor& x, Tensor& out) { out = torch::sigmoid(gate(x)); }
  Tensor forward(const Tensor& x) {
    Tensor scored;
    scores(x, scored);
    return down(up(x)) * scored.mean(-1, true);
  }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaOut);

class AlphaLocalImpl : public Module {
 public:
  explicit AlphaLocalImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x) {
    Tensor y = x;
    Tensor& same = y;
    same = up(x);
    return down(gate(x) * y.softmax(-1));
  }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaLocal);

class AlphaConstantImpl : public Module {
 public:
  explicit AlphaConstantImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x) {
    Tensor y = x;
    const Tensor& same = y;
    y = up(x);
    return down(gate(x) * same.softmax(-1));
  }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaConstant);

class AlphaBindingsImpl : public Module {
 public:
  explicit AlphaBindingsImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x) {
    std::pair<Tensor, Tensor> both(x, x);
    auto& [first, second] = both;
    first = up(x);
    return down(gate(x) * both.first.softmax(-1));
  }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaBindings);

class AlphaTieImpl : public Module {
 public:
  explicit AlphaTieImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  std::pair<Tensor, Tensor> both(const Tensor& x) { return {gate(x), up(x)}; }
  Tensor forward(const Tensor& x) {
    Tensor one, other;
    std::tie(one, other) = both(x);
    return down(one * other.softmax(-1));
  }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaTie);

class AlphaPointerImpl : public Module {
 public:
  explicit AlphaPointerImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x) {
    Tensor y = x;
    Tensor* same = &y;
    *same = up(x);
    return down(gate(x) * y.softmax(-1));
  }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaPointer);

class AlphaCaptureImpl : public Module {
 public:
  explicit AlphaCaptureImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x) {
    Tensor y = x;
    const auto softmax = [&] { return y.softmax(-1); };
    y = up(x);
    return down(gate(x) * softmax());
  }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaCapture);

class AlphaMemberImpl : public Module {
 public:
  explicit AlphaMemberImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x) {
    calls += 1;
    return down(gate(x) * up(x));
  }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  int64_t calls = 0;
};
TORCH_MODULE(AlphaMember);

class MODEL_ENTRY("causal-lm") AlphaForCausalLMImpl : public Module {
 public:
  explicit AlphaForCausalLMImpl(const AlphaConfig& config)
      : embed(register_module("embed", embedding(16, config.hidden_size, std::nullopt))),
        member(register_module("member", AlphaMember(config))) {}
  Outputs forward(const Batch& batch) {
    return {.logits = member(embed(batch.input_ids)), .loss_sum = {}, .token_count = {}, .carried = {}};
  }
  nn::Embedding embed;
  AlphaMember member;
};
TORCH_MODULE(AlphaForCausalLM);

}  // namespace modular::alpha
