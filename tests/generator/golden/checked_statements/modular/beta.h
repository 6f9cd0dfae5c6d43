// The class with a kind of its own.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaSumsImpl : public alpha::AlphaSumsImpl {
 public:
  int64_t kind() { return AlphaSumsImpl::kind() + 1; }
};
TORCH_MODULE(BetaSums);

}  // namespace modular::beta
