// The base of beta.h.
#pragma once

#include <string>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaOrder {
  bool operator()(int64_t a, int64_t b) const { return a < b; }
  bool operator()(const std::string& a, const std::string& b) const { return a < b; }
};
struct AlphaBoth {
  bool operator()(int64_t a, int64_t b) const { return a < b; }
  bool operator()(const std::string& a, const std::string& b) const { return a < b; }
};

}  // namespace modular::alpha
