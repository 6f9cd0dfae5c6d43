// The base of beta.h.
#pragma once

#include <string>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaBox {
  auto maker(int64_t n) const {
    return [this, n](int64_t m) { return n * m + number; };
  }
  decltype(auto) text() { return (text_); }
  int64_t number = 2;

 private:
  std::string text_ = "a";
};

}  // namespace modular::alpha
