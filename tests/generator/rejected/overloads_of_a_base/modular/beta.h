// Overloads that take the base, which C++ calls for no object of this class, since it prefers those that take it as what it is.
#pragma once

#include <algorithm>
#include <compare>
#include <string>
#include <variant>

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaSwapped : alpha::AlphaSwapped {
  int64_t b = 2;
};

struct BetaFree : alpha::AlphaFree {
  int64_t b = 2;
  void exchange(BetaFree& other) { alpha::alpha_exchange(*this, other); }
};

struct BetaRanked : alpha::AlphaRanked {
  friend int64_t rank(const BetaRanked&, double) { return 2; }
  template <class N>
  friend int64_t operator*(const BetaRanked&, const N&) {
    return 60;
  }
  friend int64_t operator+(const BetaRanked&, double) { return 50; }
  friend int64_t operator-(const BetaRanked&, double) { return 50; }  // has no argument that the base's takes, too
};

struct BetaOrdered : alpha::AlphaOrdered {
  auto operator<=>(const BetaOrdered& other) const { return b <=> other.b; }
  int64_t b = 2;
};

struct BetaGeneric : alpha::AlphaGeneric {};

struct BetaVisited : alpha::AlphaVisited {
  int64_t visit(const std::variant<BetaVisited, int64_t>& one) const { return std::visit(Visitor(), one); }
};

struct BetaSeen {
  int64_t operator()(const alpha::AlphaFree&) const { return 1; }
  int64_t operator()(const auto&) const { return 2; }
};

}  // namespace modular::beta
