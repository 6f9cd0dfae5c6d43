// Calls, sizes and instances of libraries, and default arguments, with another meaning in the flattened class.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaPart : alpha::AlphaPart {
  int64_t m = 2;
};

struct BetaBox {
  std::variant<int64_t, BetaPart> one = BetaPart();
  int64_t cost() const {
    return std::visit([](const auto& value) { return alpha::alpha_cost(value); }, one);
  }
  std::string kind() const {
    return std::visit(
        [](const auto& value) -> std::string {
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, alpha::AlphaPart>) return "plain";
          return "own";
        },
        one);
  }
};

struct BetaHeader : alpha::AlphaHeader {
  int32_t flags = 3;
};

struct BetaLayer : alpha::AlphaLayer {
  int64_t run(int64_t n = 5) const override { return n * 10; }
};
inline int64_t beta_run(const alpha::AlphaLayer& layer) { return layer.run(); }

}  // namespace modular::beta
