// Inherited code calls what this class declares: in a base's constructor, too, and with this class's default arguments.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaSizeImpl : public alpha::AlphaSizeImpl {
 public:
  int64_t value() override { return 2; }
  double scaled(double factor = 2.0) override { return factor * 10.0 * static_cast<double>(size); }
};
TORCH_MODULE(BetaSize);

}  // namespace modular::beta
