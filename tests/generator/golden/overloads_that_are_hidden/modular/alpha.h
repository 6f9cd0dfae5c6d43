// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaList {
 public:
  auto begin() { return values_.begin(); }
  auto end() { return values_.end(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  int64_t scaled(int64_t n) const { return n * 2; }
  int64_t scaled(const std::string& text) const { return scaled(static_cast<int64_t>(text.size())); }
  operator int64_t() { return 1; }
  operator int64_t() const { return 2; }
  AlphaList& operator=(int64_t n) {
    values_ = {n};
    return *this;
  }

 protected:
  std::vector<int64_t> values_ = {1, 2, 3};
};

}  // namespace modular::alpha
