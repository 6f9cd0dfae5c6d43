// Texts that a macro or the compiler makes of names, which are others here: `#x`, `__func__` and `__PRETTY_FUNCTION__`.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaBox : alpha::AlphaBox {
  int64_t more = 1;
};
struct BetaRow : alpha::AlphaRow {
  int64_t more = 1;
};
struct BetaNamed : alpha::AlphaNamed {
  int64_t more = 1;
};

}  // namespace modular::beta
