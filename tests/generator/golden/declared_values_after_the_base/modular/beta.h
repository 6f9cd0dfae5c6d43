// Fields that are initialized, where they are declared, from what the base's constructor sets: C++ does so after that
// constructor, and so does the flattened one, by assignments. With the base's constructor inherited, defaulted, or
// implicit and called from the next level.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaPadImpl : public alpha::AlphaPadImpl {
 public:
  int64_t twice = size * 2;
};
TORCH_MODULE(BetaPad);

struct BetaTable : alpha::AlphaTable {
  explicit BetaTable(int64_t rows) : AlphaTable(rows), limit(count * 2) {}
  // The number of values.
  int64_t count{static_cast<int64_t>(values.size())};
  int64_t limit;
  int64_t sum = [this] {
    int64_t all = 0;
    for (const int64_t one : values) all += one;
    return all;
  }();
  int64_t width = 7;  // it depends on nothing
  std::vector<int64_t> copy = values;
};

// The parameter hides the field, and the base's inherited constructor needs none.
struct BetaRows : alpha::AlphaTable {
  using AlphaTable::AlphaTable;
  int64_t rows = values.size();
  int64_t last = rows - 1;
};
}  // namespace modular::beta
