// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

inline int64_t alpha_scale(int64_t n) { return n * 2; }
constexpr int64_t kAlphaSize = 3;

struct AlphaPart {
  int64_t number = 3;
};

struct AlphaBox {
  int64_t scaled(int64_t beta_scale) const { return beta_scale + alpha_scale(beta_scale); }
  int64_t part() const {
    const int64_t BetaPart = 4;
    return BetaPart + AlphaPart().number;
  }
  int64_t size() const {
    const int64_t kBetaSize = 4;
    return kBetaSize * kAlphaSize;
  }
};

}  // namespace modular::alpha
