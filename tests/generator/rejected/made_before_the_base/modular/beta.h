// Fields without an initializer whose constructors or destructors depend on the body of a base's constructor, which C++
// runs first.
#pragma once

#include <utility>

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaBox : alpha::AlphaBox {
  alpha::AlphaModeGuard guard;
};

struct BetaHeld : alpha::AlphaBox {
  std::pair<alpha::AlphaModeGuard, int64_t> guard;
};

struct BetaChecked : alpha::AlphaChecked {
  explicit BetaChecked(int64_t rows) : AlphaChecked(rows) {}
  alpha::AlphaEnd end;
};
}  // namespace modular::beta
