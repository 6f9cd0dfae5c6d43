// The base of beta.h.
#pragma once
#include <vector>
#include "modular/modular.h"
namespace modular::alpha {
MODULAR_FAMILY(Alpha);
class AlphaActsImpl : public Module {
 public:
  AlphaActsImpl() = default;
  Tensor reshape(const Tensor& x, std::vector<int64_t> sizes) {
    sizes[0] = 1;
    sizes.push_back(1);
    return x.reshape(sizes);
  }
  void count(int64_t number) {
    seen = seen + 1;
    total = total + number;
  }
  Tensor forward(const Tensor& x) { return x; }
  int64_t seen = 0;
  int64_t total = 0;
};
TORCH_MODULE(AlphaActs);
}  // namespace modular::alpha
