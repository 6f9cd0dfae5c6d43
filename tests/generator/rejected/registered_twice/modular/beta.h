// The replaced registration cannot stay in place: code in between reads it.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaReadImpl : public alpha::AlphaReadImpl {
 public:
  BetaReadImpl() : AlphaReadImpl() { weight = register_parameter("weight", torch::zeros({2})); }
};
TORCH_MODULE(BetaRead);

}  // namespace modular::beta
