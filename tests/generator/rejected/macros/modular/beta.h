// A macro that makes a declaration, one whose body names what must be renamed, and one that outlives its spec.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

#define BETA_MAKE(name) \
  struct name : Config {}
BETA_MAKE(BetaMade);
#undef BETA_MAKE

#define BETA_SIZE 4

}  // namespace modular::beta
