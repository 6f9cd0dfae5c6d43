#pragma once

#include "modular/beta.h"

namespace modular::delta {
MODULAR_FAMILY(Delta);

class DeltaPadImpl : public beta::BetaPadImpl {
 public:
  explicit DeltaPadImpl(int64_t more) : more(more) {}

  int64_t more;
};
TORCH_MODULE(DeltaPad);
}  // namespace modular::delta
