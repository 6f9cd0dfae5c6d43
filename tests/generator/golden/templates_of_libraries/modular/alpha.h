// The base of beta.h.
#pragma once

#include <memory>
#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaNode : std::enable_shared_from_this<AlphaNode> {
  int64_t weight = 1;
};

}  // namespace modular::alpha
