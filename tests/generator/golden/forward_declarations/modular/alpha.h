// Functions and classes that are declared before they are defined, because each needs the other.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

inline int64_t alpha_odd(int64_t n, int64_t base = 0);
inline int64_t alpha_even(int64_t n) { return n == 0 ? 1 : alpha_odd(n - 1); }
inline int64_t alpha_odd(int64_t n, int64_t base) { return n == base ? 0 : alpha_even(n - 1); }

struct AlphaBox;

/// Declared before the class.
inline int64_t alpha_width(const AlphaBox& box);

struct AlphaLid;

struct AlphaBox {
  friend int64_t depth(const AlphaBox& box);
  int64_t area() const { return alpha_width(*this) * alpha_even(width); }
  AlphaLid* lid = nullptr;
  int64_t width = 3;

 private:
  int64_t depth_ = 4;
};

inline int64_t alpha_width(const AlphaBox& box) { return box.width; }
inline int64_t depth(const AlphaBox& box) { return box.depth_; }

struct AlphaLid {
  AlphaBox* box = nullptr;
  int64_t width() const { return box ? box->width : 0; }
};

}  // namespace modular::alpha
