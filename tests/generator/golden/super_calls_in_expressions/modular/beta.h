// Super calls that change a variable stay calls inside of expressions, as do those of operators.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

inline constexpr auto kBetaTwice = [](int64_t n) { return n * 2; };

class BetaCounter : public alpha::AlphaCounter {
 public:
  int64_t take() { return AlphaCounter::take() * 10 + AlphaCounter::take(); }
  int64_t next() { return AlphaCounter::next(); }
  int64_t seen() const { return kBetaTwice(AlphaCounter::seen()) + 1; }
  int64_t operator()(int64_t n) const { return AlphaCounter::operator()(n + 1) - 1; }
  int64_t& operator[](size_t index) {
    AlphaCounter::operator[](index) += 5;
    return AlphaCounter::operator[](index % 3);
  }
};

}  // namespace modular::beta
