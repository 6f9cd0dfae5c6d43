// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

enum class AlphaMode { plain, doubled };

class AlphaUnitImpl : public Module {
 public:
  AlphaUnitImpl() = default;
  double factor = 2.0;
};
TORCH_MODULE(AlphaUnit);

class AlphaStackImpl : public Module {
 public:
  using Unit = AlphaUnit;
  enum class Order { forward, backward };
  enum { kSmall = 1, kLarge = 2 };
  struct Result {
    Tensor value;
    AlphaMode mode = AlphaMode::plain;
  };
  static constexpr int64_t kDepth = 2;
  static constexpr AlphaMode kMode = AlphaMode::doubled;
  static inline const std::vector<AlphaMode> kModes = {AlphaMode::plain, AlphaMode::doubled};

  AlphaStackImpl() : unit(register_module("unit", Unit())) {}

  static Unit make() { return Unit(); }

  Result run(const Tensor& x, Order order = Order::forward) {
    static_assert(kDepth > 1);
    return {order == Order::forward ? x * unit->factor : x / unit->factor, kMode};
  }

  Tensor forward(const Tensor& x) { return run(x).value * kDepth * kLarge; }

  Unit unit;
};
TORCH_MODULE(AlphaStack);

}  // namespace modular::alpha
