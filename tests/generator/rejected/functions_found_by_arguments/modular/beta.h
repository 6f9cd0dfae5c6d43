// A function replaces a base's of its name, which a template of the base finds by its arguments.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaCoin {
  int64_t n = 4;
};
inline std::string described(const BetaCoin& coin) { return "coin " + std::to_string(coin.n); }

struct BetaBox : alpha::AlphaBox {
  std::string coin() const { return described(BetaCoin()) + text(); }
};

}  // namespace modular::beta
