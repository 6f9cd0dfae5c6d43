// Functions of the family that are called as ones with rules are: what counts is what they do.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
};

/// Over all features, unlike the contract's.
inline Tensor soft_cap(const Tensor& x, double cap) { return x / (x.abs().sum(-1, true) + cap); }

class AlphaByStaticImpl : public Module {
 public:
  explicit AlphaByStaticImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  static Tensor silu(const Tensor& x) { return x.softmax(-1); }
  Tensor forward(const Tensor& x) { return down(silu(gate(x)) * up(x)); }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaByStatic);

class AlphaByFreeImpl : public Module {
 public:
  explicit AlphaByFreeImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x) { return down(soft_cap(gate(x), 1e-6) * up(x)); }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaByFree);

class AlphaByOverloadImpl : public Module {
 public:
  explicit AlphaByOverloadImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor mixed(const Tensor& x, double scale) { return x * scale; }
  Tensor mixed(const Tensor& x, int64_t dim) { return x.softmax(dim); }
  Tensor forward(const Tensor& x) { return down(mixed(gate(x), 2.0) * mixed(up(x), int64_t{-1})); }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaByOverload);

class AlphaByMaskImpl : public Module {
 public:
  explicit AlphaByMaskImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor inner_mask(const Tensor& x) { return x.softmax(-1); }
  Tensor forward(const Tensor& x) { return down(gate(x) * inner_mask(up(x))); }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaByMask);

struct AlphaScaled {
  Tensor x;
  AlphaScaled operator*(const AlphaScaled& other) const { return {x.softmax(-1) * other.x}; }
};

class AlphaByOperatorImpl : public Module {
 public:
  explicit AlphaByOperatorImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x) { return down((AlphaScaled{gate(x)} * AlphaScaled{up(x)}).x); }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaByOperator);

template <class T>
T normalized(const T& x) {
  return x / x.sum(-1, true);
}

class AlphaByTemplateImpl : public Module {
 public:
  explicit AlphaByTemplateImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x) { return down(normalized(gate(x) * up(x))); }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaByTemplate);

class AlphaByNamespaceImpl : public Module {
 public:
  explicit AlphaByNamespaceImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x) {
    return down(torch::nn::functional::softplus(gate(x)) * torch::rms_norm(up(x), {16}, {}, {}));
  }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaByNamespace);

}  // namespace modular::alpha
