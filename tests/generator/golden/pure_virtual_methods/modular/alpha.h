// The base of beta.h.
#pragma once

#include <algorithm>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaBox {
  virtual ~AlphaBox() = 0;
  virtual int64_t width() const = 0;
  virtual int64_t height(int64_t least = 2) const = 0;
  int64_t area() const { return width() * height(); }
  int64_t number = 3;
};

inline AlphaBox::~AlphaBox() {}
inline int64_t AlphaBox::width() const { return number; }
inline int64_t AlphaBox::height(int64_t least) const {
  const int64_t most = std::max(least, number);
  return most;
}

}  // namespace modular::alpha
