// The base of beta.h.
#pragma once

#include <sstream>
#include <string>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

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

}  // namespace modular::alpha
