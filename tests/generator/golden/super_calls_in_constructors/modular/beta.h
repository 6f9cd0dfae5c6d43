// A base's method in a constructor is the base's; one that nothing redefines is just called.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaCountImpl : public alpha::AlphaCountImpl {
 public:
  explicit BetaCountImpl(int64_t start) : AlphaCountImpl(start) {
    AlphaCountImpl::set(start + 1);
    if (start > 0) AlphaCountImpl::set(AlphaCountImpl::next());
  }

  void set(int64_t value) { AlphaCountImpl::set(2 * value); }
};
TORCH_MODULE(BetaCount);

}  // namespace modular::beta
