// Declares nothing that the block reaches.
#pragma once

#include "modular/gamma.h"

namespace modular::delta {
MODULAR_FAMILY(Delta);

struct DeltaConfig : gamma::Its<alpha::AlphaConfig> {
  int64_t hidden_size = 16;
};

}  // namespace modular::delta
