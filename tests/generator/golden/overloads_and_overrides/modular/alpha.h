// The base of beta.h.
#pragma once
#include "modular/modular.h"
namespace modular::alpha {
MODULAR_FAMILY(Alpha);
inline double bounded(double x) { return x / 2; }
struct AlphaConfig : Config {
  double scale = 2.0;
};
class AlphaScaleImpl : public Module {
 public:
  explicit AlphaScaleImpl(const AlphaConfig& config) : scale(config.scale) {
    const auto grown = [&](double factor) { return bounded(scale) * factor; };
    scale = grown(3.0);
  }
  virtual double scaled(double x) { return x * scale; }
  virtual double added(double x) { return x + scale; }
  Tensor forward(const Tensor& x) { return x * scaled(1.0) + added(2.0); }
  void pretty_print(std::ostream& stream) const override { stream << "AlphaScale"; }
  double scale;
};
TORCH_MODULE(AlphaScale);
}  // namespace modular::alpha
