// A super call in a branch keeps the base's finish() as a private method; fields() stays public.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaConfig : alpha::AlphaConfig {
  bool wide = false;

  void finish() {
    if (wide) {
      head_dim = 2 * hidden_size;
    } else {
      AlphaConfig::finish();
    }
  }
};

using BetaScale = alpha::AlphaScale;

}  // namespace modular::beta
