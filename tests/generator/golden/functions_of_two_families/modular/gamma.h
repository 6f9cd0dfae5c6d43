// Functions of two families are one copy if their code is the same, down to enumerators, and none keeps a state.
#pragma once

#include "modular/alpha.h"
#include "modular/beta.h"

namespace modular::gamma {
MODULAR_FAMILY(Gamma);

struct GammaBox : alpha::AlphaBox {
  int64_t more = 1;
};
struct GammaPart : beta::BetaPart {
  int64_t more = 1;
};

}  // namespace modular::gamma
