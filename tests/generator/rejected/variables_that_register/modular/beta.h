// Nothing of this family names them.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

inline const alpha::AlphaRegistrar kBetaSecond{"second"};

struct BetaRow : alpha::AlphaRow {
  size_t count() const { return names().size(); }
};

}  // namespace modular::beta
