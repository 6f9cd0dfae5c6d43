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

/// Its destructor runs where a derived constructor throws.
struct AlphaCounted {
  ~AlphaCounted() { ++*ends; }
  int64_t* ends = nullptr;
};

struct AlphaKept {
  virtual ~AlphaKept() = default;
  std::string text = "kept";
};

struct AlphaSame {
  AlphaSame() = default;
  AlphaSame(const AlphaSame&) = default;
  std::string text = "same";
};

}  // namespace modular::alpha
