// `override` goes where the class redefines its own method, and stays where a library's; a public using-declaration keeps
// an inherited method beside one of its name; a function that a renamed member hides, and a lambda's parameter that has
// another one's name, are told apart.
#pragma once
#include "modular/alpha.h"
namespace modular::beta {
MODULAR_FAMILY(Beta, .members = {{"scale", "bounded"}});
struct BetaConfig : alpha::AlphaConfig {};
class BetaScaleImpl : public alpha::AlphaScaleImpl {
 public:
  using AlphaScaleImpl::added;
  BetaScaleImpl(const BetaConfig& config, double factor) : AlphaScaleImpl(config) { scale += factor; }
  double scaled(double x) override { return x - scale; }
  double added(int64_t x) { return static_cast<double>(x) * 2; }
  void pretty_print(std::ostream& stream) const override { stream << "BetaScale"; }
};
TORCH_MODULE(BetaScale);
}  // namespace modular::beta
