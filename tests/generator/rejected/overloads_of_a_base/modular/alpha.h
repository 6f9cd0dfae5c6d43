// The base of beta.h.
#pragma once

#include <string>
#include <utility>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaSwapped {
  friend void swap(AlphaSwapped& one, AlphaSwapped& two) noexcept { std::swap(one.a, two.a); }
  int64_t a = 1;
};

struct AlphaFree {
  int64_t a = 1;
};
inline void swap(AlphaFree& one, AlphaFree& two) noexcept { std::swap(one.a, two.a); }
inline void alpha_exchange(AlphaFree& one, AlphaFree& two) { swap(one, two); }

struct AlphaRanked {
  friend int64_t rank(const AlphaRanked&, int64_t) { return 1; }
  friend int64_t operator*(const AlphaRanked&, int64_t) { return 50; }
  int64_t operator+(int64_t n) const { return n; }
  int64_t operator-(const std::string&) const { return 1; }
};

struct AlphaOrdered {
  friend bool operator<(const AlphaOrdered& one, const AlphaOrdered& two) { return one.a < two.a; }
  int64_t a = 1;
};

struct AlphaGeneric {
  template <class T>
  friend int64_t rank(const T&) {
    return 3;
  }
  friend int64_t rank(const AlphaGeneric&) { return 1; }
};

struct AlphaVisited {
  struct Visitor {
    int64_t operator()(const AlphaVisited&) const { return 1; }
    int64_t operator()(const auto&) const { return 2; }
  };
  int64_t a = 1;
};

}  // namespace modular::alpha
