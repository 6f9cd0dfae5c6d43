// A using-directive: what names it brings in is not known where they are used.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

using namespace torch::indexing;

inline Tensor alpha_first(const Tensor& x) { return x.index({Slice(), 0}); }

}  // namespace modular::alpha
