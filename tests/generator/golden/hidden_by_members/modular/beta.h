// A member type has the name that a class of the base gets in this family: the latter is written with its namespace.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaSpaceImpl : public alpha::AlphaSpaceImpl {
 public:
  struct BetaPoint {
    int64_t x = 50;
    int64_t y = 60;
  };
  int64_t second() { return BetaPoint().y + first(); }
};
TORCH_MODULE(BetaSpace);

}  // namespace modular::beta
