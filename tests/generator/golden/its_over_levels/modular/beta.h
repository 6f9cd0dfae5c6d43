// Declares the block.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaBlockImpl : public alpha::AlphaBlockImpl {
 public:
  using AlphaBlockImpl::AlphaBlockImpl;

  Tensor forward(const Tensor& x) { return AlphaBlockImpl::forward(x) * 2.0; }
};
TORCH_MODULE(BetaBlock);

}  // namespace modular::beta
