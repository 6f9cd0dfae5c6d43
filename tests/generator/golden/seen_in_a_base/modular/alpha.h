// The base of beta.h.
#pragma once

#include <algorithm>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

inline int64_t alpha_count = 0;

/// Counts its objects.
struct AlphaCounter {
  AlphaCounter() { ++alpha_count; }
};

class AlphaTextImpl : public Module {
 public:
  explicit AlphaTextImpl(int64_t number) { stream << "number " << number; }

  std::string name() { return total; }

  std::ostringstream stream;
  std::string total = "a";
};
TORCH_MODULE(AlphaText);

/// Checks its argument.
class AlphaInverseImpl : public Module {
 public:
  explicit AlphaInverseImpl(int64_t number) { TORCH_CHECK(number != 0, "the number is zero"); }
};
TORCH_MODULE(AlphaInverse);

class AlphaCountImpl : public Module {
 public:
  explicit AlphaCountImpl(int64_t number) { first = number; }

  int64_t first;
};
TORCH_MODULE(AlphaCount);

struct AlphaLabel {
  std::string text = "a";
  std::string shown() const { return text; }
};

/// Sets its members through iterators, a pointer and a reference.
class AlphaLedImpl : public Module {
 public:
  AlphaLedImpl() : values(3), pointer(&pointed), reference(referred) {
    std::iota(values.begin(), values.end(), 2.0);
    std::replace(names.begin(), names.end(), std::string("a"), std::string("b"));
    *pointer = 5;
    reference = 6;
    const AlphaCounter counter;
  }

  std::vector<double> values;
  std::vector<std::string> names = {"a"};
  int64_t pointed = 1;
  int64_t referred = 1;
  int64_t* pointer;
  int64_t& reference;
};
TORCH_MODULE(AlphaLed);

}  // namespace modular::alpha
