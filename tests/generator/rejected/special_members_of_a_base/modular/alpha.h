// The base of beta.h.
#pragma once

#include <string>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaPoint {
  double x = 1.0;
  bool operator==(const AlphaPoint& other) const = default;
};

struct AlphaCopied {
  AlphaCopied() = default;
  AlphaCopied(const AlphaCopied& other) : x(other.x + 1.0) {}
  double x = 1.0;
};

struct AlphaOrdered {
  double x = 1.0;
  bool operator==(const AlphaOrdered& other) const { return x + 1.0 > other.x; }
};

class AlphaLoggedImpl : public Module {
 public:
  AlphaLoggedImpl() = default;
  ~AlphaLoggedImpl() override { log += "base"; }

  std::string log;
};
TORCH_MODULE(AlphaLogged);

}  // namespace modular::alpha
