// A using-declaration gives inherited members its access. An inherited constructor with the parameters of one that the
// class declares is hidden.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaSizeImpl : public alpha::AlphaSizeImpl {
 public:
  using AlphaSizeImpl::AlphaSizeImpl;
  using AlphaSizeImpl::doubled;
  explicit BetaSizeImpl(int64_t size) : AlphaSizeImpl(size, 10) {}

 protected:
  using AlphaSizeImpl::grown;
};
TORCH_MODULE(BetaSize);

}  // namespace modular::beta
