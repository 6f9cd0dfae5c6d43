// A function replaces one that a base declares as its friend.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaBox : alpha::AlphaBox {
  int64_t height = 2;
};
inline int64_t peek(const BetaBox& box) { return box.width * 10 + box.height; }

}  // namespace modular::beta
