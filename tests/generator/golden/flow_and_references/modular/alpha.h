// References, early exits, switches, moves, ties and own functions are followed.
#pragma once

#include <tuple>
#include <utility>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
};

/// Called as a function of the contract; it works on each element.
inline Tensor soft_cap(const Tensor& x, double cap) { return cap * torch::tanh(x / cap); }

template <class T>
T doubled(const T& x) {
  return x * 2.0;
}

struct AlphaPair {
  Tensor one, other;
  Tensor product() const { return one * other; }
};

class AlphaFlowImpl : public Module {
 public:
  explicit AlphaFlowImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  void both(const Tensor& x, Tensor& one, Tensor& other) {
    one = gate(x);
    if (x.dim() == 2) {
      other = one;
      return;
    }
    other = up(x);
  }

  static Tensor silu(const Tensor& x) { return torch::silu(x); }
  static Tensor silu(const Tensor& x, double scale) { return torch::silu(x) * scale; }

  Tensor forward(const Tensor& x, int64_t kind) {
    Tensor one, other;
    both(x, one, other);
    AlphaPair pair{.one = doubled(one), .other = soft_cap(other, 2.0)};
    auto& [left, right] = pair;
    switch (kind) {
      case 0:
        left = silu(left);
        break;
      case 1:
        right = silu(right, 2.0);
        [[fallthrough]];
      default:
        left = left * 2.0;
    }
    Tensor inner = pair.product();
    for (int64_t i = 0; i < 4; ++i) {
      if (i == kind) continue;
      if (i > kind + 2) break;
      inner = inner + right;
    }
    Tensor sum = torch::zeros({1}) + 1.0;
    sum += 2.0;
    std::tie(one, other) = std::make_pair(std::move(inner), sum);
    return down.get()->forward(one) * other;
  }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaFlow);

}  // namespace modular::alpha
