// The base of beta.h.
#pragma once

#include <cmath>

#if __has_include(<source_location>)
#include <source_location>  // where an error came from
#endif
#ifdef MODULAR_HAS_NOTHING_OF_THIS
#include <nothing_of_this.h>
#else
#include <numeric>
#endif

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaRootImpl : public Module {
 public:
  AlphaRootImpl() = default;
  Tensor forward(const Tensor& x) { return x * std::sqrt(2.0); }
};
TORCH_MODULE(AlphaRoot);

}  // namespace modular::alpha
