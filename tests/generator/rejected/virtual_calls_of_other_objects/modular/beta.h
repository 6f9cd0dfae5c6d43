// What such a method draws next depends on how often it has been called.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaInit : alpha::AlphaInit {
  mutable int64_t seed = 0;
  int64_t draw() const override { return ++seed; }
};

struct BetaRow : alpha::AlphaRow {
  explicit BetaRow(const alpha::AlphaInit& init) : AlphaRow(init), extra(init.draw()) {}
  BetaRow(const alpha::AlphaInit& init, int64_t extra) : AlphaRow(init.draw(), init), extra(extra) {}

  int64_t extra;
};

}  // namespace modular::beta
