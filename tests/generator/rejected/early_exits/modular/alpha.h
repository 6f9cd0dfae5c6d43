// Loops that are left or gone on with early: what holds there is one of what holds after them.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
};

class AlphaBreakImpl : public Module {
 public:
  explicit AlphaBreakImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x, int64_t rounds) {
    Tensor y = x;
    for (int64_t i = 0; i < rounds; ++i) {
      y = up(x);
      if (i == 1) break;
      y = x;
    }
    return y;
  }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaBreak);

class AlphaContinueImpl : public Module {
 public:
  explicit AlphaContinueImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x, int64_t rounds) {
    Tensor y = x;
    for (int64_t i = 0; i < rounds; ++i) {
      y = up(x);
      if (i == 1) continue;
      y = x;
    }
    return y;
  }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaContinue);

class AlphaStepImpl : public Module {
 public:
  explicit AlphaStepImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x, int64_t rounds) {
    Tensor z;
    int64_t i = 0;
    for (Tensor y = x; i < rounds; y = up(x)) {
      z = gate(x) * y;
      ++i;
    }
    return down(z);
  }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaStep);

class AlphaSwitchImpl : public Module {
 public:
  explicit AlphaSwitchImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x, int64_t kind) {
    Tensor y = x;
    switch (kind) {
      case 0:
        y = up(x);
        [[fallthrough]];
      case 1:
        y = y * 2.0;
        break;
      default:
        break;
    }
    return y;
  }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaSwitch);

class AlphaChainImpl : public Module {
 public:
  explicit AlphaChainImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x, int64_t rounds) {
    Tensor a = x, b = x, c = x, d = x, e = x, f = x;
    for (int64_t i = 0; i < rounds; ++i) {
      a = b, b = c, c = d, d = e, e = f;
      f = up(x);
    }
    return a;
  }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaChain);

class AlphaGotoImpl : public Module {
 public:
  explicit AlphaGotoImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor forward(const Tensor& x) {
    Tensor y;
    y = up(x);
    goto end;
    y = x;
  end:
    return y;
  }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaGoto);

}  // namespace modular::alpha
