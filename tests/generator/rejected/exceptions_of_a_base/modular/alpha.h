// The base of beta.h.
#pragma once

#include <stdexcept>
#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

inline int64_t alpha_checked(int64_t k) {
  if (k > 2) throw std::runtime_error("k");
  return k;
}

struct AlphaThrower {
  AlphaThrower() = default;
  AlphaThrower(const AlphaThrower&) { throw std::runtime_error("copied"); }
};

struct AlphaMade {
  AlphaMade() noexcept { a = alpha_checked(2); }
  int64_t a = 1;
};

struct AlphaMoved {
  AlphaMoved() = default;
  AlphaMoved(AlphaMoved&&) noexcept = default;
  AlphaMoved(const AlphaMoved&) = default;
  int64_t a = 1;
};

}  // namespace modular::alpha
