// The body of a template does not compile with what it is used with.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
};

template <class Function>
Tensor applied(const Tensor& x, Function function) {
  return function(x);
}

struct AlphaCheck {
  void operator()(const Tensor& x) const { TORCH_CHECK(x.defined()); }
};

class AlphaProjectionImpl : public Module {
 public:
  AlphaProjectionImpl() = default;

  Tensor forward(const Tensor& x) { return applied(x, AlphaCheck()); }
};
TORCH_MODULE(AlphaProjection);

}  // namespace modular::alpha
