// An include before #pragma once, where a generated file has what is said about the family.
#include "modular/modular.h"

#pragma once

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
};

}  // namespace modular::alpha
