// The base of beta.h. Its constructors count by code that C++ runs without an expression of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

inline int64_t alpha_drawn = 0;
inline int64_t alpha_draw() { return ++alpha_drawn; }
inline std::vector<std::string> alpha_names;

struct AlphaTicket {
  int64_t id = alpha_draw();
  int64_t kind = 1;
};

struct AlphaPair {
  AlphaTicket first, second;
};

struct AlphaParameter {
  explicit AlphaParameter(const std::string& name) { alpha_names.push_back(name); }
};

struct AlphaRange {
  const int64_t* begin() const { return values + alpha_draw() - alpha_drawn; }
  const int64_t* end() const { return values + 2; }
  int64_t values[2] = {5, 6};
};

struct AlphaKey {
  int64_t number;
  bool operator==(const AlphaKey& other) const { return alpha_draw() > 0 && number == other.number; }
};

struct AlphaKeys {
  AlphaKey first{1}, second{2};
  bool operator==(const AlphaKeys&) const = default;
};

struct AlphaCounted {
  ~AlphaCounted() { ++alpha_drawn; }
};

struct AlphaHolder {
  AlphaCounted counted;
};

struct AlphaRoot {
  explicit AlphaRoot(int64_t number) : number(number + alpha_draw()) {}
  int64_t number;
};

struct AlphaLeaf : AlphaRoot {
  using AlphaRoot::AlphaRoot;
};

struct AlphaByBraces {
  AlphaByBraces() { drawn = AlphaTicket{.kind = 2}.id; }
  int64_t drawn = 0;
};

struct AlphaByNestedBraces {
  AlphaByNestedBraces() {
    const AlphaPair pair{};
    drawn = pair.second.id;
  }
  int64_t drawn = 0;
};

struct AlphaByLibrary {
  AlphaByLibrary() { layers.push_back(std::make_shared<AlphaParameter>("layer")); }
  std::vector<std::shared_ptr<AlphaParameter>> layers;
};

struct AlphaByRange {
  AlphaByRange() {
    for (const int64_t one : AlphaRange()) drawn += one;
  }
  int64_t drawn = 0;
};

struct AlphaByComparison {
  AlphaByComparison() { drawn = AlphaKey{1} != AlphaKey{1} ? 5 : 6; }
  int64_t drawn = 0;
};

struct AlphaByDefaultedComparison {
  AlphaByDefaultedComparison() { drawn = AlphaKeys{} == AlphaKeys{} ? 5 : 6; }
  int64_t drawn = 0;
};

struct AlphaByDestructor {
  AlphaByDestructor() {
    { const AlphaHolder holder{}; }
    drawn = 1;
  }
  int64_t drawn = 0;
};

struct AlphaByInheritance {
  AlphaByInheritance() { drawn = AlphaLeaf(3).number; }
  int64_t drawn = 0;
};

struct AlphaByNumber {
  explicit AlphaByNumber(int64_t) { alpha_draw(); }
};
}  // namespace modular::alpha
