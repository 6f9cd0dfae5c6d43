// Counts that tp does not divide evenly for every config: right on two ranks, wrong on four.
#pragma once

#include <tuple>
#include <utility>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t vocab_size = 16;
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
  int64_t num_heads = 4;
  int64_t head_dim = 4;
  bool flag = true;
};

class AlphaConditionalImpl : public Module {
 public:
  explicit AlphaConditionalImpl(const AlphaConfig& config)
      : up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {
    if (config.flag) num_heads = config.num_heads;
  }

  Tensor forward(const Tensor& x) {
    return down(up(x).view({x.size(0), x.size(1), num_heads, -1}).softmax(-1).flatten(2));
  }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  TP_LOCAL int64_t num_heads = 4;
};
TORCH_MODULE(AlphaConditional);

class AlphaEarlyImpl : public Module {
 public:
  explicit AlphaEarlyImpl(const AlphaConfig& config)
      : up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {
    if (!config.flag) return;
    num_heads = config.num_heads;
  }

  Tensor forward(const Tensor& x) {
    return down(up(x).view({x.size(0), x.size(1), num_heads, -1}).softmax(-1).flatten(2));
  }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  TP_LOCAL int64_t num_heads = 4;
};
TORCH_MODULE(AlphaEarly);

class AlphaShortcutImpl : public Module {
 public:
  explicit AlphaShortcutImpl(const AlphaConfig& config)
      : up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {
    config.flag && (num_heads = config.num_heads);
  }

  Tensor forward(const Tensor& x) {
    return down(up(x).view({x.size(0), x.size(1), num_heads, -1}).softmax(-1).flatten(2));
  }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  TP_LOCAL int64_t num_heads = 4;
};
TORCH_MODULE(AlphaShortcut);

class AlphaTiedImpl : public Module {
 public:
  explicit AlphaTiedImpl(const AlphaConfig& config)
      : up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))),
        num_heads(config.num_heads) {
    int64_t other = 0;
    std::tie(num_heads, other) = std::make_pair(config.num_heads - 2, config.num_heads);
  }

  Tensor forward(const Tensor& x) {
    return down(up(x).view({x.size(0), x.size(1), num_heads, -1}).softmax(-1).flatten(2));
  }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  TP_LOCAL int64_t num_heads;
};
TORCH_MODULE(AlphaTied);

class AlphaSwappedImpl : public Module {
 public:
  explicit AlphaSwappedImpl(const AlphaConfig& config)
      : up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))),
        num_heads(config.num_heads) {
    int64_t other = 2;
    std::swap(num_heads, other);
  }

  Tensor forward(const Tensor& x) {
    return down(up(x).view({x.size(0), x.size(1), num_heads, -1}).softmax(-1).flatten(2));
  }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  TP_LOCAL int64_t num_heads;
};
TORCH_MODULE(AlphaSwapped);

class AlphaBoundImpl : public Module {
 public:
  explicit AlphaBoundImpl(const AlphaConfig& config)
      : up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))),
        num_heads(config.num_heads) {
    auto& heads = num_heads;
    heads = 2;
  }

  Tensor forward(const Tensor& x) {
    return down(up(x).view({x.size(0), x.size(1), num_heads, -1}).softmax(-1).flatten(2));
  }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  TP_LOCAL int64_t num_heads;
};
TORCH_MODULE(AlphaBound);

class AlphaCapturedImpl : public Module {
 public:
  explicit AlphaCapturedImpl(const AlphaConfig& config)
      : up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))),
        num_heads(config.num_heads) {
    const auto change = [this] { num_heads = 2; };
    change();
  }

  Tensor forward(const Tensor& x) {
    return down(up(x).view({x.size(0), x.size(1), num_heads, -1}).softmax(-1).flatten(2));
  }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  TP_LOCAL int64_t num_heads;
};
TORCH_MODULE(AlphaCaptured);

class AlphaObjectImpl : public Module {
 public:
  explicit AlphaObjectImpl(const AlphaConfig& config)
      : up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))),
        num_heads(config.num_heads) {
    (*this).num_heads = 2;
  }

  Tensor forward(const Tensor& x) {
    return down(up(x).view({x.size(0), x.size(1), num_heads, -1}).softmax(-1).flatten(2));
  }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  TP_LOCAL int64_t num_heads;
};
TORCH_MODULE(AlphaObject);

class AlphaParameterImpl : public Module {
 public:
  explicit AlphaParameterImpl(AlphaConfig config)
      : up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {
    config.num_heads -= 2;
    num_heads = config.num_heads;
  }

  Tensor forward(const Tensor& x) {
    return down(up(x).view({x.size(0), x.size(1), num_heads, -1}).softmax(-1).flatten(2));
  }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  TP_LOCAL int64_t num_heads;
};
TORCH_MODULE(AlphaParameter);

class AlphaNumberImpl : public Module {
 public:
  explicit AlphaNumberImpl(const AlphaConfig& config, int64_t heads)
      : up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {
    heads -= 2;
    num_heads = heads;
  }

  Tensor forward(const Tensor& x) {
    return down(up(x).view({x.size(0), x.size(1), num_heads, -1}).softmax(-1).flatten(2));
  }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  TP_LOCAL int64_t num_heads;
};
TORCH_MODULE(AlphaNumber);

class AlphaCutImpl : public Module {
 public:
  explicit AlphaCutImpl(const AlphaConfig& config)
      : up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))),
        num_heads(static_cast<int8_t>(config.num_heads)) {}

  Tensor forward(const Tensor& x) {
    return down(up(x).view({x.size(0), x.size(1), num_heads, -1}).softmax(-1).flatten(2));
  }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  TP_LOCAL int64_t num_heads;
};
TORCH_MODULE(AlphaCut);

class AlphaRoundedImpl : public Module {
 public:
  explicit AlphaRoundedImpl(const AlphaConfig& config)
      : up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))),
        num_heads(config.inner_size / config.head_dim) {}

  Tensor forward(const Tensor& x) {
    return down(up(x).view({x.size(0), x.size(1), num_heads, -1}).softmax(-1).flatten(2));
  }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  TP_LOCAL int64_t num_heads;
};
TORCH_MODULE(AlphaRounded);

class AlphaDifferenceImpl : public Module {
 public:
  explicit AlphaDifferenceImpl(const AlphaConfig& config)
      : up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))),
        num_heads(config.num_heads - 2) {}

  Tensor forward(const Tensor& x) {
    return down(up(x).view({x.size(0), x.size(1), num_heads, -1}).softmax(-1).flatten(2));
  }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  TP_LOCAL int64_t num_heads;
};
TORCH_MODULE(AlphaDifference);

/// The entry changes the count.
class AlphaOutsideImpl : public Module {
 public:
  explicit AlphaOutsideImpl(const AlphaConfig& config)
      : up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))),
        num_heads(config.num_heads) {}
  Tensor forward(const Tensor& x) {
    return down(up(x).view({x.size(0), x.size(1), num_heads, -1}).softmax(-1).flatten(2));
  }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  TP_LOCAL int64_t num_heads;
};
TORCH_MODULE(AlphaOutside);

class AlphaShrunkImpl : public Module {
 public:
  explicit AlphaShrunkImpl(const AlphaConfig& config)
      : up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))),
        num_heads(config.num_heads) {}
  Tensor forward(const Tensor& x) {
    return down(up(x).view({x.size(0), x.size(1), num_heads, -1}).softmax(-1).flatten(2));
  }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  TP_LOCAL int64_t num_heads;
};
TORCH_MODULE(AlphaShrunk);

inline void shrink(AlphaShrunkImpl& block) { block.num_heads = 2; }

/// Which of the constructors runs is not known.
class AlphaTwiceImpl : public Module {
 public:
  explicit AlphaTwiceImpl(const AlphaConfig& config)
      : up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))),
        num_heads(config.num_heads) {}
  AlphaTwiceImpl(const AlphaConfig& config, int64_t heads)
      : up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))),
        num_heads(heads) {}
  Tensor forward(const Tensor& x) {
    return down(up(x).view({x.size(0), x.size(1), num_heads, -1}).softmax(-1).flatten(2));
  }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  TP_LOCAL int64_t num_heads;
};
TORCH_MODULE(AlphaTwice);

/// Arithmetic on a share that does not give a share.
class AlphaSharesImpl : public Module {
 public:
  explicit AlphaSharesImpl(const AlphaConfig& config)
      : up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))),
        num_heads(config.num_heads) {}
  Tensor by(const Tensor& x, int64_t heads) {
    return down(up(x).view({x.size(0), x.size(1), heads, -1}).softmax(-1).flatten(2));
  }
  Tensor by_remainder(const Tensor& x) { return by(x, num_heads % 3); }
  Tensor by_quotient(const Tensor& x) { return by(x, num_heads / 2); }
  Tensor by_inexact_quotient(const Tensor& x) { return by(x, num_heads * 2 / 4); }
  Tensor by_difference(const Tensor& x) { return by(x, num_heads - 1); }
  Tensor by_fraction(const Tensor& x) { return by(x, static_cast<int64_t>(num_heads * 0.5)); }
  Tensor by_square(const Tensor& x) { return by(x, num_heads * num_heads); }
  Tensor by_shift(const Tensor& x) { return by(x, num_heads << 1); }
  Tensor by_compound(const Tensor& x) {
    int64_t heads = num_heads;
    heads -= 2;
    return by(x, heads);
  }
  Tensor by_wrapped(const Tensor& x) { return down(up(x).softmax(static_cast<int64_t>(3U - 4U))); }
  Tensor by_narrow(const Tensor& x) {
    signed char dim = 100;
    dim += 155;
    return down(up(x).softmax(dim));
  }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  TP_LOCAL int64_t num_heads;
};
TORCH_MODULE(AlphaShares);

class MODEL_ENTRY("causal-lm") AlphaForCausalLMImpl : public Module {
 public:
  explicit AlphaForCausalLMImpl(const AlphaConfig& config)
      : embed(register_module("embed", embedding(config.vocab_size, config.hidden_size, std::nullopt))),
        conditional(register_module("conditional", AlphaConditional(config))),
        early(register_module("early", AlphaEarly(config))),
        shortcut(register_module("shortcut", AlphaShortcut(config))),
        tied(register_module("tied", AlphaTied(config))),
        swapped(register_module("swapped", AlphaSwapped(config))),
        bound(register_module("bound", AlphaBound(config))),
        captured(register_module("captured", AlphaCaptured(config))),
        object(register_module("object", AlphaObject(config))),
        parameter(register_module("parameter", AlphaParameter(config))),
        number(register_module("number", AlphaNumber(config, config.num_heads))),
        cut(register_module("cut", AlphaCut(config))),
        rounded(register_module("rounded", AlphaRounded(config))),
        difference(register_module("difference", AlphaDifference(config))),
        twice(register_module("twice", AlphaTwice(config))),
        outside(register_module("outside", AlphaOutside(config))),
        shrunk(register_module("shrunk", AlphaShrunk(config))),
        head(register_module("head", linear(config.hidden_size, config.vocab_size, false))) {
    outside->num_heads = 2;
    shrink(*shrunk);
  }
  Outputs forward(const Batch& batch) {
    Tensor x = embed(batch.input_ids);
    x = conditional(x);
    x = early(x);
    x = shortcut(x);
    x = tied(x);
    x = swapped(x);
    x = bound(x);
    x = captured(x);
    x = object(x);
    x = parameter(x);
    x = number(x);
    x = cut(x);
    x = rounded(x);
    x = difference(x);
    x = twice(x);
    x = shrunk(outside(x));
    Outputs outputs;
    outputs.logits = head(x);
    return outputs;
  }
  nn::Embedding embed;
  AlphaConditional conditional;
  AlphaEarly early;
  AlphaShortcut shortcut;
  AlphaTied tied;
  AlphaSwapped swapped;
  AlphaBound bound;
  AlphaCaptured captured;
  AlphaObject object;
  AlphaParameter parameter;
  AlphaNumber number;
  AlphaCut cut;
  AlphaRounded rounded;
  AlphaDifference difference;
  AlphaTwice twice;
  AlphaOutside outside;
  AlphaShrunk shrunk;
  nn::Linear head;
};
TORCH_MODULE(AlphaForCausalLM);

}  // namespace modular::alpha
