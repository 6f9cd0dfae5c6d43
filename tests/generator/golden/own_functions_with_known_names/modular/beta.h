// A spec's own functions are not those of libtorch and of the standard library that have their names.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaBox : alpha::AlphaBox {
  BetaBox() : AlphaBox(), mine(size) {}
  int64_t mine;
};

struct BetaRow : alpha::AlphaRow {
  BetaRow() : AlphaRow(), mine(size) {}
  int64_t mine;
};

}  // namespace modular::beta
