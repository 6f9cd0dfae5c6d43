// A static variable of a method is one for both classes; flattened, each would have its own.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaFirstImpl : public alpha::AlphaNumberImpl {};
TORCH_MODULE(BetaFirst);

class BetaSecondImpl : public alpha::AlphaNumberImpl {};
TORCH_MODULE(BetaSecond);

}  // namespace modular::beta
