// Through a cast or a reference, C++ calls what the base declares; flattened, there is one class.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaSizeImpl : public alpha::AlphaSizeImpl {
 public:
  int64_t size() { return 2; }
  int64_t by_cast() { return static_cast<alpha::AlphaSizeImpl*>(this)->size(); }
  int64_t by_reference() {
    alpha::AlphaSizeImpl& base = *this;
    return base.size();
  }
};
TORCH_MODULE(BetaSize);

}  // namespace modular::beta
