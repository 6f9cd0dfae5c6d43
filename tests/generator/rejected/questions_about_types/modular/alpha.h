// The base of beta.h.
#pragma once

#include <memory>
#include <stdexcept>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaShape {
  virtual ~AlphaShape() = default;
  int64_t width = 1;
};

struct AlphaError : std::runtime_error {
  AlphaError() : runtime_error("alpha") {}
};
struct AlphaWorse : AlphaError {};

inline int64_t caught() {
  try {
    throw AlphaWorse();
  } catch (const AlphaError&) {
    return 1;
  }
}

}  // namespace modular::alpha
