// The base of beta.h.
#pragma once
#include "modular/modular.h"
namespace modular::alpha {
MODULAR_FAMILY(Alpha);
struct AlphaConfig : Config {
  int64_t width = 8;
};
class AlphaGateImpl : public Module {
 public:
  explicit AlphaGateImpl(const AlphaConfig& config) : width(config.width) {}
  int64_t widened(const int64_t& size) { return size % 7 + 8; }
  int64_t doubled(int64_t size) const { return size * 2; }
  void grow(int64_t size) {
    const int64_t step = size + 1;
    width += step;
  }
  Tensor forward(const Tensor& x) { return x * widened(width); }
  int64_t width;
};
TORCH_MODULE(AlphaGate);
}  // namespace modular::alpha
