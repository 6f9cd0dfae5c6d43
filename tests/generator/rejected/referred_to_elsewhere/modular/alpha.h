// Variables that something else refers to when they become split over tp: iterators, views, structs, references to one
// of two.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
  int64_t num_heads = 4;
  int64_t head_dim = 2;
};

struct AlphaRefers {
  Tensor& held;
  void set(const Tensor& x) { held = x; }
};

struct AlphaReads {
  explicit AlphaReads(const Tensor& x) : held(x) {}
  const Tensor& held;
};

inline const Tensor& same(const Tensor& x) { return x; }
inline void put(const Tensor& to, const Tensor& from) { const_cast<Tensor&>(to) = from; }

class AlphaLayersImpl : public Module {
 public:
  explicit AlphaLayersImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor by_iterator(const Tensor& x) {
    std::vector<Tensor> all = {x, x};
    auto it = all.begin();
    all[0] = up(x);
    return down(gate(x) * it->mean(-1, true));
  }
  Tensor by_list(const Tensor& x) {
    std::vector<Tensor> all = {x, x};
    at::TensorList list = all;
    all[0] = up(x);
    return down(gate(x) * list[0].mean(-1, true));
  }
  Tensor by_wrapper(const Tensor& x) {
    Tensor y = x;
    std::reference_wrapper<Tensor> wrapped = y;
    y = up(x);
    return down(gate(x) * wrapped.get().mean(-1, true));
  }
  Tensor by_address(const Tensor& x) {
    Tensor y = x;
    Tensor* at = std::addressof(y);
    y = up(x);
    return down(gate(x) * at->mean(-1, true));
  }
  Tensor by_choice(const Tensor& x) {
    Tensor y = x, z = x;
    const Tensor& one = x.dim() == 2 ? y : z;
    y = up(x);
    return down(gate(x) * one.mean(-1, true));
  }
  Tensor by_function(const Tensor& x) {
    Tensor y = x;
    const Tensor& other = same(y);
    y = up(x);
    return down(gate(x) * other.mean(-1, true));
  }
  Tensor by_struct(const Tensor& x) {
    Tensor y = x;
    AlphaRefers refers{y};
    refers.set(up(x));
    return down(gate(x) * y.mean(-1, true));
  }
  Tensor by_constructor(const Tensor& x) {
    Tensor y = x;
    const AlphaReads reads(y);
    y = up(x);
    return down(gate(x) * reads.held.mean(-1, true));
  }
  Tensor by_cast(const Tensor& x) {
    Tensor y = x;
    put(y, up(x));
    return down(gate(x) * y.mean(-1, true));
  }
  Tensor by_round(const Tensor& x) {
    std::vector<Tensor> all = {x, x};
    Tensor y = x;
    for (Tensor each : all) {
      y = each;
      all[1] = up(x);
    }
    return down(gate(x) * y.mean(-1, true));
  }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaLayers);

}  // namespace modular::alpha
