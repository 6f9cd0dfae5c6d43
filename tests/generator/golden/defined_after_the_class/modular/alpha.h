// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
};

class AlphaGateImpl : public Module {
 public:
  explicit AlphaGateImpl(const AlphaConfig& config, double gain = 1.0);

  /// Gated.
  Tensor forward(const Tensor& x, bool twice = false);
  [[nodiscard]] double gain() const noexcept { return gain_; }
  template <class Number>
  Number scaled(Number n) const;

 private:
  nn::Linear proj;
  double gain_;
};
TORCH_MODULE(AlphaGate);

inline AlphaGateImpl::AlphaGateImpl(const AlphaConfig& config, double gain)
    : proj(register_module("proj", linear(config.hidden_size, config.hidden_size, true))), gain_(gain) {}

inline Tensor AlphaGateImpl::forward(const Tensor& x, bool twice) {
  // Once or twice.
  const Tensor y = proj(x).sigmoid() * x * gain_;
  return twice ? y * y : y;
}

template <class Number>
Number AlphaGateImpl::scaled(Number n) const {
  return n * static_cast<Number>(gain_);
}

}  // namespace modular::alpha
