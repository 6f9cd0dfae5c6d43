// The base of beta.h. Its variable is made by a closure.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

inline const std::vector<int64_t> kAlphaSizes = [] {
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size < 9; size *= 2) sizes.push_back(size);
  return sizes;
}();

class AlphaCounter {
 public:
  int64_t take() { return count++; }
  int64_t next() { return ++count; }
  int64_t seen() const { return count; }
  int64_t operator()(int64_t n) const {
    int64_t sum = 0;
    while (n > 0) sum += n--;
    return sum + count;
  }
  int64_t& operator[](size_t index) {
    if (index >= values.size()) values.resize(index + 1);
    return values[index];
  }

 protected:
  int64_t count = 3;
  std::vector<int64_t> values = kAlphaSizes;
};

}  // namespace modular::alpha
