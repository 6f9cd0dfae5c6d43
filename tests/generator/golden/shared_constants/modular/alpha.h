// The base of beta.h.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaScale {
  static constexpr double factor = 2.0;
  static constexpr int64_t sizes[] = {1, 2, 4};
  static inline const std::vector<std::string> names = {"one", "two"};

  int64_t largest() const {
    static const std::vector<int64_t> more = {8, 16};
    int64_t found = std::max(sizes[0], more[1]);
    for (const auto& size : sizes) found = std::max(found, size);
    return found + static_cast<int64_t>(names.size() + names[0].size());
  }
  Tensor scaled(const Tensor& x) const { return x * factor; }
};

struct AlphaShape {
  virtual ~AlphaShape() = default;
  virtual int64_t area() const { return 1; }
};

template <class Shape>
int64_t doubled(const Shape& shape) {
  return 2 * shape.area();
}

}  // namespace modular::alpha
