// A class that derives from two classes of specs.
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
