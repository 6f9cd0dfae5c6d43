// An include inside a class, where nothing is read any more in the spec, but would be in the generated file.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
#include "modular/modular.h"
  int64_t hidden_size = 8;
};

}  // namespace modular::alpha
