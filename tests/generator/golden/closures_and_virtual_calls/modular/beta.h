// Super calls whose arguments are read when the call is made: the base's method stays as a method.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaHooks : alpha::AlphaHooks {
  int64_t step = 3;

  void add(int64_t by) {
    AlphaHooks::add(step);
    step += by;
  }
  int64_t both(const alpha::AlphaInit& init) const { return AlphaHooks::both(init.draw(), init); }
};

}  // namespace modular::beta
