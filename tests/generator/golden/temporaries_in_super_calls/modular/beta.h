// The guard ends with the base's method; a string's end has no effect.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaCountImpl : public alpha::AlphaCountImpl {
 public:
  int64_t total() { return AlphaCountImpl::total() + ends; }
  int64_t length() { return AlphaCountImpl::length() + ends; }
};
TORCH_MODULE(BetaCount);

}  // namespace modular::beta
