// Level 14 of the chain.
#pragma once

#include "modular/kappa.h"
#include "modular/nu.h"

namespace modular::xi {
MODULAR_FAMILY(Xi);

struct XiConfig : nu::Its<kappa::KappaConfig> {
  double scale_13 = 13.0;
};

}  // namespace modular::xi
