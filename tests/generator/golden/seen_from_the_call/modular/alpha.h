// The base of beta.h.
#pragma once

#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaActsImpl : public Module {
 public:
  int64_t by_value(int64_t x) {
    value += 10;
    return x + value;
  }
  std::vector<int64_t>& reference() { return values; }
  int64_t never_throws(int64_t index) noexcept { return values.at(static_cast<size_t>(index)); }
  int64_t both(int64_t x) { return value = x, value; }
  int64_t number_of(const std::vector<int64_t>& some = {1, 2, 3}) { return std::ssize(some); }
  int64_t speed() { return fast; }

  enum Speed { slow = 1, fast = 2 };
  int64_t value = 1;
  std::vector<int64_t> values = {1, 2, 3};
};
TORCH_MODULE(AlphaActs);

}  // namespace modular::alpha
