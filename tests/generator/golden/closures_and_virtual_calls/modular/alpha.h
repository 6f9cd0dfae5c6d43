// The base of beta.h: closures that copy what they name, and calls of virtual methods of other objects.
#pragma once

#include <functional>
#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaInit {
  virtual ~AlphaInit() = default;
  virtual int64_t draw() const = 0;
};

struct AlphaHooks {
  std::vector<std::function<int64_t(int64_t)>> hooks;

  void add(int64_t by) {
    hooks.push_back([=](int64_t n) { return n + by; });
  }
  int64_t both(int64_t n, const AlphaInit& init) const { return init.draw() * 10 + n; }
};

}  // namespace modular::alpha
