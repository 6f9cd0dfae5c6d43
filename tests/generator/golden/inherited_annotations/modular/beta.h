// A redeclared member keeps its annotations; TP_NONE drops them.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaMLPImpl : public alpha::AlphaMLPImpl {
 public:
  using AlphaMLPImpl::AlphaMLPImpl;

  nn::Linear up;  // still column-wise
};
TORCH_MODULE(BetaMLP);

class BetaPlainMLPImpl : public alpha::AlphaMLPImpl {
 public:
  using AlphaMLPImpl::AlphaMLPImpl;

  TP_NONE nn::Linear up;
  TP_NONE nn::Linear down;
};
TORCH_MODULE(BetaPlainMLP);

}  // namespace modular::beta
