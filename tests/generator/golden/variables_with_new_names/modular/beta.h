// Variables of inherited code that have the new names of what it uses.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaBox : alpha::AlphaBox {
  int64_t all() const { return scaled(1) + part() + size(); }
};

}  // namespace modular::beta
