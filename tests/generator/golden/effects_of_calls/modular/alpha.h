// The base of beta.h. Its constructors change members by operators, conversions and methods that other names suggest to
// be reads.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaLog {
  int64_t total = 0;
  AlphaLog& operator<<(int64_t by) {
    total += by;
    return *this;
  }
  int64_t operator[](int64_t by) { return total += by; }
  explicit operator bool() { return ++total > 0; }
};

struct AlphaIds {
  mutable int64_t given = 0;
  int64_t last = 0;
  int64_t get() { return ++last; }
  int64_t take() const { return ++given; }
};

struct AlphaByOperator {
  AlphaByOperator() { log << 5; }
  AlphaLog log;
};

struct AlphaBySubscript {
  AlphaBySubscript() { first = log[5]; }
  AlphaLog log;
  int64_t first = 0;
};

struct AlphaByConversion {
  AlphaByConversion() {
    if (log) first = 1;
  }
  AlphaLog log;
  int64_t first = 0;
};

struct AlphaByName {
  AlphaByName() { first = ids.get(); }
  AlphaIds ids;
  int64_t first = 0;
};

struct AlphaByMutable {
  AlphaByMutable() { first = ids.take(); }
  AlphaIds ids;
  int64_t first = 0;
};

struct AlphaByInsertion {
  AlphaByInsertion() { first = counts["x"]; }
  std::map<std::string, int64_t> counts;
  int64_t first = 0;
};

struct AlphaByInvocation {
  AlphaByInvocation() {
    std::invoke([](int64_t& number) { number = 7; }, first);
  }
  int64_t first = 0;
};

inline int64_t alpha_seen = 0;
inline void alpha_count(int64_t one) { alpha_seen += one; }

struct AlphaByFunction {
  AlphaByFunction() { std::for_each(values.begin(), values.end(), alpha_count); }
  std::vector<int64_t> values{1, 2};
};

struct AlphaByReference {
  AlphaByReference() {
    const auto bump = [](auto&& number) { number += 5; };
    bump(first);
  }
  int64_t first = 0;
};

struct AlphaByRange {
  AlphaByRange() { std::ranges::fill(values, 7); }
  int64_t values[3] = {1, 2, 3};
};

inline int64_t alpha_made = 0;
struct AlphaPart {
  AlphaPart() { ++alpha_made; }
  AlphaPart(const AlphaPart&) { ++alpha_made; }
  ~AlphaPart() { ++alpha_made; }
};

struct AlphaByElement {
  AlphaByElement() { parts.resize(3); }
  std::vector<AlphaPart> parts;
};

struct AlphaByTemporary {
  AlphaByTemporary() { AlphaPart(); }
};

struct AlphaByEnvironment {
  AlphaByEnvironment() { setenv("MODULAR_GOLDEN", "x", 1); }
};

struct AlphaWhole {
  int64_t number;
};
struct AlphaSame {
  int64_t number;
};

struct AlphaByUnion {
  AlphaByUnion() { whole.number = 5; }
  union {
    AlphaWhole whole = {1};
    AlphaSame same;
  };
};

struct AlphaPeak {
  int64_t value = 0;
  explicit AlphaPeak(int64_t number) : value(number) {}
  AlphaPeak(const AlphaPeak&) = default;
  AlphaPeak& operator=(const AlphaPeak& other) {
    value = std::max(value, other.value);
    return *this;
  }
};

struct AlphaByAssignment {
  explicit AlphaByAssignment(int64_t number) : peak(number) {}
  AlphaPeak peak;
};

}  // namespace modular::alpha
