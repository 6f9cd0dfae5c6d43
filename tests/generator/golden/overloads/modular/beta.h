// Overloads are told apart by their signatures: one is redefined, one is removed, and two stay.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaTableImpl : public alpha::AlphaTableImpl {
 public:
  using AlphaTableImpl::scale;

  void scale(double value) { state.value = value * 2.0; }
  void scale(const alpha::AlphaState& from) = delete;
};
TORCH_MODULE(BetaTable);

}  // namespace modular::beta
