// The base of beta.h.
#pragma once

#include <string>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

constexpr int64_t kAlphaMaxLength = 100;
inline const std::string kAlphaPrefix = "model.";

struct AlphaRow {
  int64_t longest() const { return kAlphaMaxLength; }
  std::string name() const { return kAlphaPrefix; }
};

}  // namespace modular::alpha
