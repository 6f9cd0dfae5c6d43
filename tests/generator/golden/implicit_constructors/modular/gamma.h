// A constructor that nobody wrote calls that of its base: here the second level's, called from the third.
#pragma once
#include "modular/beta.h"
namespace modular::gamma {
MODULAR_FAMILY(Gamma);
class GammaPadImpl : public beta::BetaPadImpl {
 public:
  GammaPadImpl() : BetaPadImpl() { half += 1; }
};
TORCH_MODULE(GammaPad);
}  // namespace modular::gamma
