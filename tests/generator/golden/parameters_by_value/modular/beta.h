// A base changes its by-value parameter, or what the argument was read from: the caller's value stays.
#pragma once
#include "modular/alpha.h"
namespace modular::beta {
MODULAR_FAMILY(Beta);
class BetaActsImpl : public alpha::AlphaActsImpl {
 public:
  Tensor reshape(const Tensor& x, std::vector<int64_t> sizes) {
    if (false) return x;
    kept = sizes;
    return AlphaActsImpl::reshape(x, kept);
  }
  void count(int64_t number) {
    AlphaActsImpl::count(seen);
    total = total + number;
  }
  std::vector<int64_t> kept;
};
TORCH_MODULE(BetaActs);
}  // namespace modular::beta
