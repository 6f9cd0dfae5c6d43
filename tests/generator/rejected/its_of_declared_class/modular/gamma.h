// Its<…> names what a family infers, and beta declares this one.
#pragma once

#include "modular/alpha.h"
#include "modular/beta.h"

namespace modular::gamma {
MODULAR_FAMILY(Gamma);

class GammaProjectionImpl : public beta::Its<alpha::AlphaProjectionImpl> {
 public:
  using AlphaProjectionImpl::AlphaProjectionImpl;
};
TORCH_MODULE(GammaProjection);

}  // namespace modular::gamma
