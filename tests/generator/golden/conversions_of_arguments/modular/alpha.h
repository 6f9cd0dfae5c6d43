// The base of beta.h.
#pragma once
#include "modular/modular.h"
namespace modular::alpha {
MODULAR_FAMILY(Alpha);
struct AlphaConfig : Config {
  int64_t heads = 8;
  int64_t layers = 3;
};
class AlphaActsImpl : public Module {
 public:
  AlphaActsImpl(int64_t size, double divisor)
      : weight(register_parameter("weight", torch::ones({size}))), scale(1 / divisor) {}
  double inverse(double divisor) { return 1 / divisor; }
  int64_t rounded(int64_t number) { return number * 2; }
  double count() { return layers; }
  Tensor forward(const Tensor& x) { return x * scale * inverse(2.0); }
  Tensor weight;
  double scale;
  int64_t layers = 3;
};
TORCH_MODULE(AlphaActs);
}  // namespace modular::alpha
