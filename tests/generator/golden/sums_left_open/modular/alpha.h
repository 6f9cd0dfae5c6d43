// A sum over ranks waits for another one that it is added to, but not where a call may change what it is of.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t intermediate_size = 16;
};

/// One sum serves both products.
class AlphaPairImpl : public Module {
 public:
  explicit AlphaPairImpl(const AlphaConfig& config)
      : up(linear(config.hidden_size, config.intermediate_size, /*bias=*/false)),
        down(linear(config.intermediate_size, config.hidden_size, /*bias=*/false)),
        other(linear(config.intermediate_size, config.hidden_size, /*bias=*/false)) {}

  Tensor forward(const Tensor& x) {
    const Tensor inner = up(x);
    return down(inner) + other(inner) + x;
  }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down, other;
};

/// A product that is added to another one, and that a method then halves.
class AlphaHalvedImpl : public Module {
 public:
  explicit AlphaHalvedImpl(const AlphaConfig& config)
      : up(linear(config.hidden_size, config.intermediate_size, /*bias=*/false)),
        down(linear(config.intermediate_size, config.hidden_size, /*bias=*/false)),
        other(linear(config.intermediate_size, config.hidden_size, /*bias=*/false)) {}

  Tensor forward(const Tensor& x) {
    const Tensor inner = up(x);
    Tensor result = down(inner);
    const Tensor both = result + other(inner);
    halve(result);
    return both + result;
  }

  void halve(Tensor& out) { out = out * 0.5; }

  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down, other;
};

/// One sum, of which a product is added to a full value.
class AlphaScaledImpl : public Module {
 public:
  explicit AlphaScaledImpl(const AlphaConfig& config)
      : scale(register_parameter("scale", torch::ones({config.hidden_size}))),
        up(linear(config.hidden_size, config.intermediate_size, /*bias=*/false)),
        down(linear(config.intermediate_size, config.hidden_size, /*bias=*/false)),
        other(linear(config.intermediate_size, config.hidden_size, /*bias=*/false)) {}

  Tensor forward(const Tensor& x) {
    const Tensor inner = up(x);
    return x + (down(inner) + other(inner)) * scale;
  }

  Tensor scale;
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down, other;
};

class AlphaBlockImpl : public Module {
 public:
  explicit AlphaBlockImpl(const AlphaConfig& config)
      : pair(AlphaPair(config)), halved(AlphaHalved(config)), scaled(AlphaScaled(config)) {}
  Tensor forward(const Tensor& x) { return scaled(halved(pair(x))); }
  AlphaPair pair;
  AlphaHalved halved;
  AlphaScaled scaled;
};

}  // namespace modular::alpha
