// The base of beta.h: its constructor calls a virtual method of another object.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaInit {
  virtual ~AlphaInit() = default;
  virtual int64_t draw() const = 0;
};

struct AlphaRow {
  explicit AlphaRow(const AlphaInit& init) { width = init.draw(); }
  AlphaRow(int64_t height, const AlphaInit& init) : width(init.draw()), height(height) {}
  int64_t both(int64_t n, const AlphaInit& init) const { return init.draw() * 10 + n; }

  int64_t width;
  int64_t height = 0;
};

}  // namespace modular::alpha
