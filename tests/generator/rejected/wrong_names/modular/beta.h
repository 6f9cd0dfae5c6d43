// A class without the family's prefix, and declarations outside of the family's namespace.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct Settings : Config {};

}  // namespace modular::beta

namespace modular::other {
struct BetaThing {};
}  // namespace modular::other

struct BetaGlobal {};

namespace modular::beta {

}  // namespace modular::beta
