// Two bases have a class of the same name, and nothing tells them apart.
#pragma once

#include "modular/alpha.h"
#include "modular/other.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

using BetaBlock = alpha::AlphaBlock;
using BetaUser = other::OtherUser;

}  // namespace modular::beta
