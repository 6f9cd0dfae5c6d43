// In C++ a copy is an object of the base, whose virtual methods are the base's.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaPlan : alpha::AlphaPlan {
  int64_t cost() const override { return steps + 10; }
  int64_t before() const { return snapshot().cost(); }
};
struct BetaLog : alpha::AlphaLog {
  int64_t cost() const override { return steps + 10; }
  int64_t before() const { return history.back()->cost(); }
};

}  // namespace modular::beta
