// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaState {
  double value = 1.0;
};

class AlphaTableImpl : public Module {
 public:
  AlphaTableImpl() = default;

  /// The scale.
  double scale() const { return state.value; }
  /// Sets it.
  void scale(double value) { state.value = value; }
  /// From a state.
  void scale(const AlphaState& from) { state = from; }
  void scale(const std::vector<AlphaState>& from) { state = from[0]; }

  Tensor forward(const Tensor& x) { return x * scale(); }

  AlphaState state;
};
TORCH_MODULE(AlphaTable);

}  // namespace modular::alpha
