// It does so also where another level's constructor calls it.
#pragma once
#include "modular/beta.h"
namespace modular::gamma {
MODULAR_FAMILY(Gamma);
class GammaPadImpl : public beta::BetaPadImpl {
 public:
  GammaPadImpl() : BetaPadImpl() { half += more; }
};
TORCH_MODULE(GammaPad);
}  // namespace modular::gamma
