// Definitions outside of their class that are not the body of a method, or that add to its declaration.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaBox {
  struct Part;
  enum class Mode : int8_t;
  AlphaBox();
  static int64_t count;
  int64_t area(int64_t width, int64_t height) const;
  template <class Number>
  Number scaled(Number n) const;
  int64_t depth = 2;
};

struct AlphaBox::Part {
  int64_t n = 4;
};
enum class AlphaBox::Mode : int8_t { one = 4 };
inline AlphaBox::AlphaBox() = default;
inline int64_t AlphaBox::count = 5;
inline int64_t AlphaBox::area(int64_t width, int64_t height = 5) const { return width * height; }
template <class N>
N AlphaBox::scaled(N n) const {
  return n * depth;
}

}  // namespace modular::alpha
