// Variables and members that are read before they have a value, by what is to give it; beside what only looks so.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaMixerImpl : public Module {
 public:
  explicit AlphaMixerImpl(double) : scale(scale), shift(1.0) {}

  Tensor forward(const Tensor& x) {
    Tensor mixed = mix(mixed) * scale;
    const int64_t rows = sizeof(rows);
    const std::function<int64_t(int64_t)> halvings = [&](int64_t n) { return n < 2 ? 0 : 1 + halvings(n / 2); };
    const auto twice = [](const Tensor& y) {
      Tensor doubled(y + doubled);
      return doubled;
    };
    return twice(mixed) + x.size(0) * halvings(rows) + shift;
  }

  Tensor mix(const Tensor& x) { return x * factor; }

  double scale;
  double shift;
  double factor = this->factor + 1.0;
};
TORCH_MODULE(AlphaMixer);

}  // namespace modular::alpha
