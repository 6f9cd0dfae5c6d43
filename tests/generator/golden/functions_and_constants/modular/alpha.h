// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

inline constexpr double kAlphaLimit = 4.0;
inline constexpr double ALPHA_FLOOR = 1.0;

/// Never reached.
inline Tensor unused(const Tensor& x) { return x; }

/// Between the floor and the limit, as every alpha does. "Alpha" is a family here, alphabet is a word.
inline Tensor alpha_clamp(const Tensor& x) {
  TORCH_CHECK(x.defined(), "alpha: no tensor");
  return x.clamp(ALPHA_FLOOR, kAlphaLimit);
}

inline Tensor squared(const Tensor& x) { return x * x; }

class AlphaUserImpl : public Module {
 public:
  AlphaUserImpl() = default;
  Tensor forward(const Tensor& x) { return squared(alpha_clamp(x)); }
};
TORCH_MODULE(AlphaUser);

}  // namespace modular::alpha
