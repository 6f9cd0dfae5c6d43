// Members that take the base, which flattened is the class; members of a base that another redefines; an argument that
// throws before the base's constructor runs; fields that C++ sets to zero, initializes later, or initializes twice.
#pragma once

#include <vector>

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaCopied : alpha::AlphaNumber {
  BetaCopied() = default;
  BetaCopied(const alpha::AlphaNumber& other) : AlphaNumber(other.number), more(50) {}
  int64_t more = 2;
};

struct BetaAssigned : alpha::AlphaNumber {
  BetaAssigned& operator=(const alpha::AlphaNumber& other) {
    number = other.number;
    return *this;
  }
  int64_t more = 2;
};

struct BetaCompared : alpha::AlphaCompared {
  bool operator==(const alpha::AlphaCompared& other) const { return number == other.number; }
};

struct BetaRecounted : alpha::AlphaRecounted {
  using AlphaCounted::count;
};

struct BetaChosen : alpha::AlphaChosen {
  BetaChosen(const std::vector<int64_t>& numbers, bool chooses) : AlphaChosen(numbers.at(5), chooses) {}
};

struct BetaUnset : alpha::AlphaSet {
  int64_t more;
};

struct BetaReordered : alpha::AlphaPair {
  int64_t first = second + 1;
};

struct BetaTaken : alpha::AlphaTaken {
  using AlphaTaken::AlphaTaken;
  int64_t taken = 5;
};

struct BetaCounting : alpha::AlphaCounting {
  int64_t taken = 5;
};

}  // namespace modular::beta
