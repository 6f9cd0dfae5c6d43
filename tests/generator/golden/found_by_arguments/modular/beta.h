// Functions that C++ finds by their arguments are inherited with the classes that they take. An operator for other
// classes is another overload, and one for the class that replaces the base's replaces the base's.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaKey : alpha::AlphaKey {
  int64_t rank = 0;
};
inline bool operator==(const BetaKey& a, const BetaKey& b) { return a.id == b.id && a.rank == b.rank; }

struct BetaRow {
  int64_t n = 0;
};
inline bool operator<(const BetaRow& a, const BetaRow& b) { return a.n > b.n; }

class BetaTable : public alpha::AlphaTable {
 public:
  void add_all(const std::map<BetaRow, BetaKey>& keys) {
    for (const auto& [row, key] : keys) add(key);
  }
};

}  // namespace modular::beta
