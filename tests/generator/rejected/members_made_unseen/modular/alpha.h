// Members of structs that take a split value from an initializer or a comparison that modgen does not follow.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
};

struct AlphaPair {
  Tensor one;
  Tensor other = one;
};

struct AlphaMade {
  explicit AlphaMade(const Tensor& x) : one(x) {}
  Tensor one;
  Tensor other = one;
};

struct AlphaCopies {
  explicit AlphaCopies(const Tensor& x) : all(2, x) {}
  std::vector<Tensor> all;
};

struct AlphaBox {
  Tensor held;
  bool operator==(const AlphaBox& /*other*/) const { return held.size(-1) == 16; }
};

class AlphaLayersImpl : public Module {
 public:
  explicit AlphaLayersImpl(const AlphaConfig& config)
      : gate(register_module("gate", linear(config.hidden_size, config.inner_size, false))),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))) {}

  Tensor by_braces(const Tensor& x) {
    const AlphaPair pair{up(x)};
    return x + pair.other.mean(-1, true);
  }
  Tensor by_constructor(const Tensor& x) {
    const AlphaMade made(up(x));
    return x + made.other.mean(-1, true);
  }
  Tensor by_two_arguments(const Tensor& x) {
    const AlphaCopies copies(up(x));
    return x + copies.all[0].mean(-1, true);
  }
  Tensor by_rewritten_comparison(const Tensor& x) {
    const AlphaBox one{up(x)}, other{gate(x)};
    return x * (one != other ? 2.0 : 3.0);
  }

  TP_COLWISE nn::Linear gate;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
};
TORCH_MODULE(AlphaLayers);

}  // namespace modular::alpha
