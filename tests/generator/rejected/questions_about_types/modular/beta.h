// C++ distinguishes a class and its base; flattened, they are one.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaShape : alpha::AlphaShape {
  bool is_same() const { return std::is_same_v<alpha::AlphaShape, BetaShape>; }
  bool is_larger() const { return sizeof(BetaShape) > sizeof(alpha::AlphaShape); }
  bool is_other(const alpha::AlphaShape& other) const { return dynamic_cast<const BetaShape*>(&other) == nullptr; }
  bool is_pointer(const std::shared_ptr<alpha::AlphaShape>& other) const {
    return std::dynamic_pointer_cast<BetaShape>(other) != nullptr;
  }
  int64_t height = 2;
};

}  // namespace modular::beta
