// A static variable is one for both classes; flattened, each would have its own. Of a constant, code may notice.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaFirst : alpha::AlphaNumber {};

struct BetaSecond : alpha::AlphaNumber {};

struct BetaTagged : alpha::AlphaTagged {};

struct BetaOther : alpha::AlphaTagged {};

}  // namespace modular::beta
