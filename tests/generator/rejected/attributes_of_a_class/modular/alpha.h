// Attributes of a class that change its layout; one that only warns is dropped.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct alignas(64) AlphaAligned {
  int64_t number = 1;
};

struct [[gnu::packed]] AlphaPacked {
  char letter = 'a';
  int64_t number = 1;
};

struct [[nodiscard]] AlphaResult {
  int64_t number = 1;
};

}  // namespace modular::alpha
