// Nothing of what the entry reaches uses BetaOther, which derives from a class of the base.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaOtherImpl : public alpha::AlphaProjectionImpl {
 public:
  using AlphaProjectionImpl::AlphaProjectionImpl;
};
TORCH_MODULE(BetaOther);

using BetaBlock MODEL_ENTRY("causal-lm") = alpha::AlphaBlock;

}  // namespace modular::beta
