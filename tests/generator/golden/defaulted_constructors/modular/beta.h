// A constructor that says `= default` runs its base's.
#pragma once
#include "modular/alpha.h"
namespace modular::beta {
MODULAR_FAMILY(Beta);
class BetaPadImpl : public alpha::AlphaPadImpl {
 public:
  BetaPadImpl() = default;
  int64_t more = 2;
};
TORCH_MODULE(BetaPad);
}  // namespace modular::beta
