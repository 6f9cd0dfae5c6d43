// Nested enums, aliases and structs, and static and constexpr members that name classes of the family.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaUnitImpl : public alpha::AlphaUnitImpl {
 public:
  double factor = 3.0;
};
TORCH_MODULE(BetaUnit);

class BetaStackImpl : public alpha::AlphaStackImpl {
 public:
  enum class Order { backward, forward, both };
  static constexpr int64_t kDepth = 3;

  Result run(const Tensor& x, Order order = Order::both) {
    return {order == Order::both ? x + 1.0 : x, kMode == alpha::AlphaMode::plain ? kMode : alpha::AlphaMode::plain};
  }
};
TORCH_MODULE(BetaStack);

}  // namespace modular::beta
