// Friends of a class and of its base, of which only one is defined in its class.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaBox : alpha::AlphaBox {
  friend int64_t peek(const BetaBox& box) { return alpha::peek(box) * 10 + box.height; }
  int64_t height = 2;
};

struct BetaLid : alpha::AlphaLid {
  friend int64_t peek(const BetaLid& lid);
  int64_t height = 2;
};
inline int64_t peek(const BetaLid& lid) { return lid.width + lid.height; }

}  // namespace modular::beta
