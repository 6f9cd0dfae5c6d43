// Overloads of a base that C++ hides are left out where no inherited code calls them.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaList : public alpha::AlphaList {
 public:
  auto begin() const { return values_.rbegin(); }
  auto end() const { return values_.rend(); }
  int64_t scaled(const std::string& text) const { return AlphaList::scaled(text) + 1; }
  operator int64_t() const { return 3; }
};

struct BetaBox {
  int64_t number() {
    BetaList list;
    int64_t number = 0;
    for (const int64_t one : list) number = number * 10 + one;
    return number + list;
  }
};

}  // namespace modular::beta
