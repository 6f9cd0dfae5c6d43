// The class that beta.h and gamma.h derive from.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  bool bias = true;
};

/// One linear layer.
class AlphaProjectionImpl : public Module {
 public:
  explicit AlphaProjectionImpl(const AlphaConfig& config)
      : proj(linear(config.hidden_size, config.hidden_size, config.bias)), scale(1.0) {}

  /// What the layer reads.
  Tensor prepare(const Tensor& x) { return x; }

  /// What becomes of its result.
  Tensor finished(const Tensor& x) { return x * scale; }

  Tensor forward(const Tensor& x) { return finished(proj(prepare(x))); }

  nn::Linear proj;
  double scale;
};

/// Two of them.
class AlphaBlockImpl : public Module {
 public:
  explicit AlphaBlockImpl(const AlphaConfig& config)
      : first(AlphaProjection(config)), second(AlphaProjection(config)) {}

  Tensor forward(const Tensor& x) { return second(first(x)); }

  AlphaProjection first;
  AlphaProjection second;
};

}  // namespace modular::alpha
