// A field that is initialized, where it is declared, from what the base's constructor sets: C++ does so after that constructor, a class
// written as one before it. With the base's constructor inherited, defaulted, or implicit and called from the next level.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaPadImpl : public alpha::AlphaPadImpl {
 public:
  int64_t twice = size * 2;
};
TORCH_MODULE(BetaPad);
}  // namespace modular::beta
