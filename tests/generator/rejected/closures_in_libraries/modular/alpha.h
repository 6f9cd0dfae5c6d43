// The base of beta.h.
#pragma once

#include <span>
#include <variant>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaPart {
  int64_t n = 4;
};

template <class T>
int64_t alpha_cost(const T&) {
  return 1;
}
inline int64_t alpha_cost(const AlphaPart& part) { return part.n; }

struct AlphaHeader {
  int32_t version = 1;
  size_t stored() const { return std::as_bytes(std::span<const AlphaHeader>(this, 1)).size(); }
};

struct AlphaLayer {
  virtual ~AlphaLayer() = default;
  virtual int64_t run(int64_t n = 2) const { return n; }
};

}  // namespace modular::alpha
