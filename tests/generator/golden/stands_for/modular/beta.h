// STANDS_FOR says which class this one replaces where its name does not; Its<…> names a class that a family infers.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class STANDS_FOR(alpha::AlphaProjection) BetaOtherImpl : public Its<alpha::AlphaProjectionImpl> {
 public:
  using AlphaProjectionImpl::AlphaProjectionImpl;

  Tensor forward(const Tensor& x) { return proj(x) * 2.0; }
};
TORCH_MODULE(BetaOther);

using BetaBlock = alpha::AlphaBlock;

}  // namespace modular::beta
