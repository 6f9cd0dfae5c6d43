// The base of beta.h and gamma.h.
#pragma once

#include <stdexcept>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

inline int64_t alpha_mode = 1;
struct AlphaModeGuard {
  AlphaModeGuard() { alpha_mode = 2; }
  ~AlphaModeGuard() { alpha_mode = 1; }
};

struct AlphaEnd {
  ~AlphaEnd() { alpha_mode = 3; }
};

struct AlphaBox {
  AlphaBox() { seen = alpha_mode; }
  int64_t seen = 0;
};

struct AlphaChecked {
  explicit AlphaChecked(int64_t rows) {
    if (rows < 0) throw std::invalid_argument("rows");
    seen = rows;
  }
  int64_t seen = 0;
};

struct AlphaShown {
  AlphaShown() { seen = shown(); }
  virtual ~AlphaShown() = default;
  virtual int64_t shown() const { return 1; }
  int64_t seen = 0;
};

struct AlphaTwice {
  AlphaTwice() = default;
  explicit AlphaTwice(int64_t rows) { seen = rows; }
  int64_t seen = 0;
};
}  // namespace modular::alpha
