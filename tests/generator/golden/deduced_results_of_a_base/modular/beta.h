// A kept method whose result type follows from its body comes before its call.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaBox : alpha::AlphaBox {
  auto maker(int64_t n) const {
    return [inner = AlphaBox::maker(n + 1)](int64_t m) { return inner(m) * 10; };
  }
  decltype(auto) text() {
    AlphaBox::text() += "b";
    return AlphaBox::text();
  }
};

}  // namespace modular::beta
