// Pure virtual methods with a body, which is outside of the class.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaBox : alpha::AlphaBox {
  int64_t width() const override { return AlphaBox::width() + 1; }
};

struct BetaCube : BetaBox {
  int64_t height(int64_t least = 2) const override {
    const int64_t most = BetaBox::height(least) * 2;
    return most;
  }
};

}  // namespace modular::beta
