// The base of beta.h.
#pragma once
#include "modular/modular.h"
namespace modular::alpha {
MODULAR_FAMILY(Alpha);
struct AlphaConfig : Config {
  int64_t size = 8;
};
class AlphaOneImpl : public Module {
 public:
  explicit AlphaOneImpl(const AlphaConfig& config) {
    const int64_t inner = config.size * 4;
    up = register_module("up", linear(config.size, inner, false));
  }
  Tensor forward(const Tensor& x) { return up(x); }
  nn::Linear up{nullptr};
};
TORCH_MODULE(AlphaOne);
}  // namespace modular::alpha
