// Arguments and results of super calls meet the conversions that C++ gives them: a private method keeps the body, a
// constructor casts.
#pragma once
#include "modular/alpha.h"
namespace modular::beta {
MODULAR_FAMILY(Beta);
struct BetaConfig : alpha::AlphaConfig {};
class BetaActsImpl : public alpha::AlphaActsImpl {
 public:
  BetaActsImpl(const BetaConfig& config, int64_t size) : AlphaActsImpl(size, config.heads) {}
  double inverse(double divisor) { return AlphaActsImpl::inverse(4) + divisor * 0; }
  int64_t rounded(int64_t number) { return AlphaActsImpl::rounded(number * 0.9); }
  double count() { return AlphaActsImpl::count() / 2; }
};
TORCH_MODULE(BetaActs);
}  // namespace modular::beta
