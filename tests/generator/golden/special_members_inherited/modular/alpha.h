// The base of beta.h.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

inline int64_t alpha_checked(int64_t k) {
  if (k > 2) throw std::runtime_error("k");
  return k;
}

struct AlphaMade {
  int64_t a = 1;

 protected:
  /// Only for classes that derive.
  explicit AlphaMade() noexcept { a = 2; }
};

struct AlphaDefaulted {
  int64_t a = 1;

 protected:
  AlphaDefaulted() noexcept = default;
  AlphaDefaulted(const AlphaDefaulted&) = default;
  AlphaDefaulted& operator=(const AlphaDefaulted&) = default;
};

struct AlphaEnded {
  virtual int64_t f() const { return 1; }

 protected:
  virtual ~AlphaEnded() = default;
};

struct AlphaNumbered {
  explicit AlphaNumbered(int64_t n) noexcept : a(n) {}
  explicit(true) AlphaNumbered() : a(0) {}
  int64_t a;
};

/// A count.
struct AlphaCount {
  /// From a number.
  AlphaCount(int64_t n = 3, const std::string& text = "") : a(n) { length = std::ssize(text); }
  AlphaCount(double d) : a(static_cast<int64_t>(d)) {}
  int64_t a;
  int64_t length = 0;
};

struct AlphaText {
  AlphaText(const char* text = "x") : a(text) {}
  std::string a;
};

struct AlphaPair {
  AlphaPair() : a(0) {}
  AlphaPair(int64_t n, int64_t m) : a(n * 10 + m) {}
  explicit AlphaPair(int64_t n) : a(n) {}
  int64_t a;
};

struct AlphaRouter {
  virtual ~AlphaRouter() = default;
  virtual int64_t cost(int64_t n) const { return n; }
};

struct AlphaSwapped {
  friend void swap(AlphaSwapped& one, AlphaSwapped& two) noexcept { std::swap(one.a, two.a); }
  friend bool operator<(const AlphaSwapped& one, const AlphaSwapped& two) { return one.a < two.a; }
  void order(AlphaSwapped& other) {
    if (other < *this) swap(*this, other);
  }
  int64_t a = 1;
};

}  // namespace modular::alpha
