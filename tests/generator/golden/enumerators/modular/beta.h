// An enumerator brings its enum along.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaRow : alpha::AlphaRow {
  int64_t first() const { return alpha::kFirst; }
};

}  // namespace modular::beta
