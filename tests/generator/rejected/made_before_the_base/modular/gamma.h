// Default member initializers that cannot become assignments after the base's body: that body reads the field by a
// virtual method, or only one of two constructors has such a body.
#pragma once

#include "modular/alpha.h"

namespace modular::gamma {
MODULAR_FAMILY(Gamma);

struct GammaShown : alpha::AlphaShown {
  int64_t shown() const override { return width; }
  int64_t width = 4;
};

struct GammaTwice : alpha::AlphaTwice {
  using AlphaTwice::AlphaTwice;
  int64_t twice = seen * 2;
};

struct GammaBits : alpha::AlphaBox {
  int64_t bits : 4 = seen;
};
}  // namespace modular::gamma
