// Split values that are written where another name of the same storage reads them.
#pragma once

#include <memory>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
  int64_t num_heads = 4;
};

struct AlphaBox {
  Tensor held;
};

struct AlphaChoice {
  mutable Tensor held;
  void set(const Tensor& one, const Tensor& other, bool first) const {
    if (first) {
      held = one;
      return;
    }
    held = other;
  }
};

class AlphaLayersImpl : public Module {
 public:
  explicit AlphaLayersImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor by_shared_pointer(const Tensor& x) {
    const auto box = std::make_shared<AlphaBox>(AlphaBox{x});
    const auto held = [box] { return box->held; };
    box->held = up(x);
    return x + held().mean(-1, true);
  }
  Tensor by_mutable_member(const Tensor& x) {
    AlphaChoice choice;
    choice.held = x;
    choice.set(up(x), x, x.dim() == 2);
    return x + choice.held.mean(-1, true);
  }
  Tensor by_comma(const Tensor& x) {
    Tensor y = up(x);
    (void(0), y) = x.repeat({1, 1, 2});
    return x + down(y);
  }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaLayers);

}  // namespace modular::alpha
