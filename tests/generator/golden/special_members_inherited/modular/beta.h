// Constructors, copies and destructors that C++ declares implicitly are public, not explicit, and not noexcept where fields
// may throw; converting constructors are not inherited; friends replace those of the base.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaMade : alpha::AlphaMade {
  int64_t b = alpha::alpha_checked(5);
};

struct BetaDefaulted : alpha::AlphaDefaulted {
  int64_t b = alpha::alpha_checked(1);
};

struct BetaEnded : alpha::AlphaEnded {
  int64_t f() const override { return 4; }
};

struct BetaNumbered : alpha::AlphaNumbered {
  using AlphaNumbered::AlphaNumbered;
  std::vector<int64_t> b{1, 2};
};

struct BetaCount : alpha::AlphaCount {
  virtual ~BetaCount() = default;
  int64_t b = 3;
};

struct BetaText : alpha::AlphaText {
  virtual ~BetaText() = default;
};

struct BetaPair : alpha::AlphaPair {
  using AlphaPair::AlphaPair;
  explicit BetaPair(int64_t n = 5, double d = 0.5) : AlphaPair(n, 9), b(d) {}
  double b;
};

// No code moves one.
struct BetaRouter : alpha::AlphaRouter {
  int64_t cost(int64_t n) const override { return AlphaRouter::cost(n) + std::ssize(bias); }
  std::vector<int64_t> bias;
};

struct BetaSwapped : alpha::AlphaSwapped {
  friend void swap(BetaSwapped& one, BetaSwapped& two) noexcept {
    std::swap(one.a, two.a);
    std::swap(one.b, two.b);
  }
  friend bool operator<(const BetaSwapped& one, const BetaSwapped& two) { return one.b < two.b; }
  bool is_less(const BetaSwapped& other) const { return *this < other; }
  int64_t b = 1;
};

}  // namespace modular::beta
