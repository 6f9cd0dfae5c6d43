// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaPart {
  int64_t n = 1;
};

struct AlphaNumber {
  explicit AlphaNumber(int64_t n) : n(n) {}
  int64_t n;
};

struct AlphaBox {
  std::map<std::string, AlphaPart> parts;
  std::vector<AlphaNumber> numbers;
  int64_t part() { return parts["first"].n + std::make_unique<AlphaPart>()->n; }
  void add() { numbers.emplace_back(3); }
};

struct AlphaPair {
  AlphaPart first, second;
};

}  // namespace modular::alpha
