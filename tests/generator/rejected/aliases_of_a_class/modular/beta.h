// Inherited code names a type that the class declares again.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaRange : alpha::AlphaRange {
  using number = int64_t;
};

}  // namespace modular::beta
