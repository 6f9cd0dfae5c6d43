// Macros of one name, each undefined after its uses, get names of their own.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

#define SCALE(x) ((x)*5)
struct BetaBox : alpha::AlphaBox {
  int64_t height() const { return SCALE(4); }
};
#undef SCALE

}  // namespace modular::beta
