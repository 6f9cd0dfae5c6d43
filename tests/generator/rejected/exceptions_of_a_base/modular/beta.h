// Members of a base that end the program where something throws. Those that C++ declares implicitly in this class let an
// exception of its fields pass.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaMade : alpha::AlphaMade {
  int64_t b = alpha::alpha_checked(5);
};

struct BetaMoved : alpha::AlphaMoved {
  alpha::AlphaThrower thrower;
};

}  // namespace modular::beta
