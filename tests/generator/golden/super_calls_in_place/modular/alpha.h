// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaActsImpl : public Module {
 public:
  AlphaActsImpl() = default;

  Tensor simple(const Tensor& x, double factor = 2.0) { return x * factor; }
  Tensor early(const Tensor& x) {
    if (x.numel() == 0) return x;
    return x * 2.0;
  }
  Tensor local(const Tensor& x) {
    const Tensor y = x + 1.0;
    return y * y;
  }
  void note(std::vector<Tensor>& seen, const Tensor& x) {
    seen.push_back(x);
    count += 1;
  }

  int64_t count = 0;
};
TORCH_MODULE(AlphaActs);

}  // namespace modular::alpha
