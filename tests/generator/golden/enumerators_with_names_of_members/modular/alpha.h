// The base of beta.h.
#pragma once

#include <array>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

enum AlphaMode { kFast = 2, kSlow = 4 };
enum class AlphaSide { kLeft = 1 };

struct AlphaBox {
  std::array<int64_t, kFast> numbers{};
  int64_t more[kSlow] = {};
  enum { kBoth = kFast + 1 };

  int64_t size() const { return static_cast<int64_t>(numbers.size()) + kBoth + AlphaMode::kSlow; }
  int64_t side() const { return static_cast<int64_t>(AlphaSide::kLeft); }
  template <class T>
  T as() const {
    return static_cast<T>(kFast);
  }
  int64_t as_number() const { return as<int64_t>(); }
  int64_t inner() const {
    enum { kFast = 7 };
    return int64_t{kFast} * alpha::kFast;
  }
};

}  // namespace modular::alpha
