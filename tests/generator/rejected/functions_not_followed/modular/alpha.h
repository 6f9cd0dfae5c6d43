// What runs where modgen does not see it: pointers to functions, lambdas that call them, copies and destructors.
#pragma once

#include <functional>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
  int64_t num_heads = 4;
  int64_t head_dim = 2;
};

struct AlphaDoubled {
  explicit AlphaDoubled(const Tensor& x) : held(x) {}
  AlphaDoubled(const AlphaDoubled& other) : held(other.held.sum(-1, true)) {}
  Tensor held;
};

struct AlphaGuard {
  Tensor& held;
  Tensor later;
  ~AlphaGuard() { held = later; }
};

inline Tensor doubled(Tensor x) {
  x *= 2.0;
  return x;
}

class AlphaLayersImpl : public Module {
 public:
  explicit AlphaLayersImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor by_pointer(const Tensor& x) {
    Tensor (*change)(Tensor) = &doubled;
    return down(up(change(x)));
  }
  Tensor by_copy(const Tensor& x) {
    const AlphaDoubled one(up(x));
    const AlphaDoubled other = one;
    return down(gate(x) * other.held);
  }
  Tensor by_destructor(const Tensor& x) {
    Tensor y = x;
    {
      const AlphaGuard guard{y, up(x)};
    }
    return down(gate(x) * y.mean(-1, true));
  }
  Tensor by_lambda(const Tensor& x) {
    const auto twice = [](const Tensor& one) { return doubled(one); };
    return down(up(twice(x)));
  }
  Tensor by_any_lambda(const Tensor& x) {
    const auto twice = [](auto one) { return one * 2.0; };
    return down(up(twice(x)));
  }
  Tensor by_parameter_of_a_lambda(const Tensor& x) {
    std::vector<Tensor> all = {x, x};
    std::for_each(all.begin(), all.end(), [&](Tensor& one) { one = one + x; });
    return down(up(all[0]));
  }
  Tensor by_method_pointer(const Tensor& x) {
    const auto change = std::mem_fn(&AlphaLayersImpl::split);
    return down(gate(x) * change(this, x).mean(-1, true));
  }
  Tensor split(const Tensor& x) { return up(x); }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaLayers);

}  // namespace modular::alpha
