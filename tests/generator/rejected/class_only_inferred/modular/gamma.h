// Classes are named that their families only infer.
#pragma once

#include "modular/beta.h"

namespace modular::gamma {
MODULAR_FAMILY(Gamma);

class GammaModelImpl : public beta::BetaModelImpl {
 public:
  GammaModelImpl() : BetaModelImpl() {}
  Tensor forward(const Tensor& x) { return GammaBlock()(x); }
  BetaBlock other{nullptr};
};

}  // namespace modular::gamma
