// A class that is no module does not inherit its base's constructors.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaWindow : public alpha::AlphaWindow {
 public:
  int64_t left() const { return size - 1; }
};

}  // namespace modular::beta
