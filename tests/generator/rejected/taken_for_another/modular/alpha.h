// The base of beta.h.
#pragma once

#include <cstdint>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaNumber {
  AlphaNumber() = default;
  explicit AlphaNumber(int64_t of) : number(of) {}
  int64_t number = 1;
};

struct AlphaCompared {
  int64_t number = 1;
};

struct AlphaCounted {
  int64_t count(int64_t) const { return 1; }
};

struct AlphaRecounted : AlphaCounted {
  int64_t count(double) const { return 2; }
};

struct AlphaChosen {
  AlphaChosen(int64_t of, bool chooses) {
    if (chooses) number = of;
  }
  int64_t number = 1;
};

struct AlphaSet {
  AlphaSet() { number = 1; }
  int64_t number;
};

struct AlphaPair {
  int64_t first = 1;
  int64_t second = 2;
};

struct AlphaTaken {
  explicit AlphaTaken(int64_t number) : rest(number), taken(rest++) {}
  int64_t rest, taken;
};

struct AlphaCounting {
  int64_t rest = 3;
  int64_t taken = rest++;
};

}  // namespace modular::alpha
