// A field that is declared again with a value, to which the base's constructor assigns another one after its initializer. What is
// assigned once alone, the redeclaration's value stands for.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaScaleImpl : public alpha::AlphaScaleImpl {
 public:
  using AlphaScaleImpl::AlphaScaleImpl;

  double scale = 0.5;
  double offset = 1.0;
};
TORCH_MODULE(BetaScale);
}  // namespace modular::beta
