// A class that derives from two classes of specs, which have no base in common.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaProjectionImpl : public alpha::AlphaProjectionImpl, public alpha::AlphaMixin {
 public:
  using AlphaProjectionImpl::AlphaProjectionImpl;
};
TORCH_MODULE(BetaProjection);

}  // namespace modular::beta
