// There is no such overload.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaProjectionImpl : public alpha::AlphaProjectionImpl {
 public:
  using AlphaProjectionImpl::AlphaProjectionImpl;
  Tensor forward(int64_t n) = delete;
};
TORCH_MODULE(BetaProjection);

}  // namespace modular::beta
