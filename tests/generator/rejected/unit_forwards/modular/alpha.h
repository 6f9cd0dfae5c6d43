// Forwards of units that the runtime cannot run with copies of their arguments, more than once.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
};

struct AlphaState {
  Tensor x;
};

class FSDP_UNIT AlphaHiddenImpl : public Module {
 public:
  explicit AlphaHiddenImpl(const AlphaConfig& config)
      : proj(register_module("proj", linear(config.hidden_size, config.hidden_size, false))) {}
  Tensor forward(const AlphaState& state) { return proj(state.x); }
  nn::Linear proj;
};
TORCH_MODULE(AlphaHidden);

class FSDP_UNIT AlphaDeducedImpl : public Module {
 public:
  explicit AlphaDeducedImpl(const AlphaConfig& config)
      : proj(register_module("proj", linear(config.hidden_size, config.hidden_size, false))) {}
  auto forward(const Tensor& x) { return proj(x); }
  nn::Linear proj;
};
TORCH_MODULE(AlphaDeduced);

class FSDP_UNIT AlphaConstantImpl : public Module {
 public:
  explicit AlphaConstantImpl(const AlphaConfig& config)
      : proj(register_module("proj", linear(config.hidden_size, config.hidden_size, false))) {}
  Tensor forward(const Tensor& x) const { return x; }
  nn::Linear proj;
};
TORCH_MODULE(AlphaConstant);

class FSDP_UNIT AlphaStaticImpl : public Module {
 public:
  explicit AlphaStaticImpl(const AlphaConfig& config)
      : proj(register_module("proj", linear(config.hidden_size, config.hidden_size, false))) {}
  static Tensor forward(const Tensor& x) { return x; }
  nn::Linear proj;
};
TORCH_MODULE(AlphaStatic);

class FSDP_UNIT AlphaGenericImpl : public Module {
 public:
  explicit AlphaGenericImpl(const AlphaConfig& config)
      : proj(register_module("proj", linear(config.hidden_size, config.hidden_size, false))) {}
  template <class T>
  Tensor forward(const T& x) {
    return proj(x);
  }
  nn::Linear proj;
};
TORCH_MODULE(AlphaGeneric);

class FSDP_UNIT AlphaOutImpl : public Module {
 public:
  explicit AlphaOutImpl(const AlphaConfig& config)
      : proj(register_module("proj", linear(config.hidden_size, config.hidden_size, false))) {}
  Tensor forward(const Tensor& x, Tensor& out) {
    out = proj(x);
    return out;
  }
  nn::Linear proj;
};
TORCH_MODULE(AlphaOut);

class FSDP_UNIT AlphaNothingImpl : public Module {
 public:
  explicit AlphaNothingImpl(const AlphaConfig& config)
      : proj(register_module("proj", linear(config.hidden_size, config.hidden_size, false))) {}
  void forward(const Tensor& x) { last = x.size(0); }
  int64_t last = 0;
  nn::Linear proj;
};
TORCH_MODULE(AlphaNothing);

class FSDP_UNIT AlphaTakenImpl : public Module {
 public:
  explicit AlphaTakenImpl(const AlphaConfig& config)
      : proj(register_module("proj", linear(config.hidden_size, config.hidden_size, false))) {}
  Tensor forward(const Tensor& x) { return forward_unit(x); }
  Tensor forward_unit(const Tensor& x) { return proj(x); }
  nn::Linear proj;
};
TORCH_MODULE(AlphaTaken);

}  // namespace modular::alpha
