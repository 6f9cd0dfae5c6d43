// The effects of the arguments would come in another order.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaSizedImpl : public alpha::AlphaSizedImpl {
 public:
  explicit BetaSizedImpl(int64_t size) : AlphaSizedImpl(size++, size) {}
};
TORCH_MODULE(BetaSized);

}  // namespace modular::beta
