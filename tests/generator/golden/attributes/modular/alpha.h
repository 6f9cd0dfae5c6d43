// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaGaugeImpl : public Module {
 public:
  AlphaGaugeImpl() = default;

  [[nodiscard]] double level() const noexcept { return level_; }
  void raise(double by = 1.0, [[maybe_unused]] int64_t times = 2) { level_ += by; }
  void pretty_print(std::ostream& stream) const override { stream << "alpha"; }
  void reset_parameters() override {}
  [[nodiscard]] Tensor forward(const Tensor& x) { return x * level_; }

 protected:
  alignas(16) double level_ = 1.0;
  mutable int64_t reads = 0;
};
TORCH_MODULE(AlphaGauge);

}  // namespace modular::alpha
