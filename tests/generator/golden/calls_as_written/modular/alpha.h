// Parallel calls are placed by the syntax tree, however a call, a statement or a forward is written.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
  int64_t visit = 4;  // the name of what visits
  bool tie_word_embeddings = false;
};

class AlphaParenthesesImpl : public Module {
 public:
  explicit AlphaParenthesesImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x) { return (down)(torch::silu((gate)(x)) * (up->forward)((x))); }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaParentheses);

class AlphaUnbracedImpl : public Module {
 public:
  explicit AlphaUnbracedImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x, bool flag) {
    if (flag)  // why
      return down(gate(x) * up(x));
    else       // why not
      for (int64_t i = 0; i < 2; ++i) /* each */ return down(up(x) * gate(x));
    return x;
  }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaUnbraced);

class AlphaDeclarationsImpl : public Module {
 public:
  explicit AlphaDeclarationsImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x) {
    const Tensor y = x * 2.0, z = down(gate(y) * up(y));
    if (Tensor w = z * 2.0; w.defined()) return down(gate(w) * up(w));
    switch (x.dim()) {
      case 2: {
        const Tensor v = x * 3.0;
        return down(gate(v) * up(v));
      }
      default:
        return down(gate(z) * up(z));
    }
  }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaDeclarations);

class AlphaPointersImpl : public Module {
 public:
  explicit AlphaPointersImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x) { return (*down).forward(up.get()->forward(x) * gate->forward(x)); }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaPointers);

class AlphaDefinedImpl : public Module {
 public:
  explicit AlphaDefinedImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x, const Tensor& extra) {
    return extra.defined() ? down(gate(extra) * up(extra)) : down(gate(x) * up(x));
  }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaDefined);

class AlphaNamesImpl : public Module {
 public:
  explicit AlphaNamesImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x) { return down(gate(x) * up(x)) * x_tp; }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  double x_tp = 1.0;
};
TORCH_MODULE(AlphaNames);

class FSDP_UNIT AlphaTrailingImpl : public Module {
 public:
  explicit AlphaTrailingImpl(const AlphaConfig& config)
      : proj(register_module("proj", linear(config.hidden_size, config.hidden_size, false))) {}
  auto forward(const Tensor& x, const Tensor& /*mask*/, bool = true, double scale = 1.0) -> Tensor {
    return proj(x) * scale;
  }
  nn::Linear proj;
};
TORCH_MODULE(AlphaTrailing);

class MODEL_ENTRY("causal-lm") FSDP_UNIT AlphaForCausalLMImpl : public Module {
 public:
  explicit AlphaForCausalLMImpl(const AlphaConfig& config)
      : embed(register_module("embed", embedding(config.visit, config.hidden_size, std::nullopt))),
        parentheses(register_module("parentheses", AlphaParentheses(config))),
        unbraced(register_module("unbraced", AlphaUnbraced(config))),
        declarations(register_module("declarations", AlphaDeclarations(config))),
        pointers(register_module("pointers", AlphaPointers(config))),
        defined(register_module("defined", AlphaDefined(config))),
        names(register_module("names", AlphaNames(config))),
        trailing(register_module("trailing", AlphaTrailing(config))) {}
  Outputs forward(const Batch& batch) {
    Tensor x = unbraced(parentheses(embed(batch.input_ids)), true);
    x = names(defined(pointers(declarations(x)), x));
    return {.logits = trailing(x, x), .loss_sum = {}, .token_count = {}, .carried = {}};
  }
  nn::Embedding embed;
  AlphaParentheses parentheses;
  AlphaUnbraced unbraced;
  AlphaDeclarations declarations;
  AlphaPointers pointers;
  AlphaDefined defined;
  AlphaNames names;
  AlphaTrailing trailing;
};
TORCH_MODULE(AlphaForCausalLM);

}  // namespace modular::alpha
