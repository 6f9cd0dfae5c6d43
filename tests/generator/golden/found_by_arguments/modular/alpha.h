// The base of beta.h. Operators and functions that only containers, algorithms and templates call.
#pragma once

#include <list>
#include <map>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

template <class T>
std::string alpha_described(const std::vector<T>& all) {
  std::string text;
  for (const T& one : all) text += described(one);
  return text;
}

enum class AlphaKind { first, second };
inline std::string described(AlphaKind kind) { return kind == AlphaKind::first ? "1" : "2"; }

struct AlphaKey {
  int64_t id = 0;
};
inline bool operator<(const AlphaKey& a, const AlphaKey& b) { return a.id < b.id; }
inline bool operator==(const AlphaKey& a, const AlphaKey& b) { return a.id == b.id; }

struct AlphaSteps {
  std::vector<int64_t> all;
};
inline auto begin(const AlphaSteps& steps) { return steps.all.begin(); }
inline auto end(const AlphaSteps& steps) { return steps.all.end(); }

struct AlphaUnused {
  int64_t n = 0;
};
inline bool operator==(const AlphaUnused& a, const AlphaUnused& b) { return a.n == b.n; }

class AlphaTable {
 public:
  void add(const AlphaKey& key) {
    rows_[key] += 1;
    order_.remove(key);
    order_.push_back(key);
  }
  int64_t sum() const {
    int64_t sum = 0;
    for (const int64_t step : steps_) sum += step;
    return sum;
  }
  std::string kinds() const { return alpha_described(kinds_); }

 private:
  std::map<AlphaKey, int64_t> rows_;
  std::list<AlphaKey> order_;
  AlphaSteps steps_;
  std::vector<AlphaKind> kinds_;
};

}  // namespace modular::alpha
