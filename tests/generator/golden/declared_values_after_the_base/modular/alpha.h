// The base of beta.h, gamma.h and delta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaPadImpl : public Module {
 public:
  AlphaPadImpl() { size = 3; }

  Tensor forward(const Tensor& x) { return x + size; }

  int64_t size = 1;
};
TORCH_MODULE(AlphaPad);

struct AlphaTable {
  explicit AlphaTable(int64_t rows) {
    const int64_t step = rows > 8 ? 2 : 1;
    for (int64_t row = 0; row < rows; row += step) values.push_back(row);
  }
  std::vector<int64_t> values;
};
}  // namespace modular::alpha
