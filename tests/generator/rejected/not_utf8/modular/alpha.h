// Saved as Latin-1: café.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);
}  // namespace modular::alpha
