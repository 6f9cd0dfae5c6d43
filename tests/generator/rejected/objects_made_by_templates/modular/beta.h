// Code has a template make an object of the base.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaPart : alpha::AlphaPart {
  BetaPart() { n = 5; }
};

struct BetaBox {
  int64_t sum() const { return alpha::alpha_made<alpha::AlphaPart>().n + alpha::alpha_made<BetaPart>().n; }
  int64_t read(const BetaPart& part) const { return alpha::alpha_read<alpha::AlphaPart>(part); }
};

}  // namespace modular::beta
