// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

template <class Box>
int64_t doubled(const Box& box) {
  return box.value() * 2;
}
template <class Box>
int64_t area(const Box& box) {
  return box.width() * box.depth();
}

/// Hands itself on.
struct AlphaBox {
  virtual ~AlphaBox() = default;
  int64_t value() const { return 1; }
  int64_t width() const { return 2; }
  virtual int64_t depth() const { return 3; }
  template <class Function>
  int64_t with(Function function) const {
    return function(*this) + doubled(*this);
  }
};

struct AlphaLayer {
  int64_t value() const { return 4; }
};

/// Hands its layers on, not itself.
struct AlphaModel {
  int64_t value() const { return first.value() + second.value(); }
  template <class Function>
  void each(Function function) const {
    function(first);
    function(second);
  }
  AlphaLayer first;
  AlphaLayer second;
};

}  // namespace modular::alpha
