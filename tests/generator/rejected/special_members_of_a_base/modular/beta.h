// Members of a base for which C++ treats the base's part of an object separately.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaPoint : alpha::AlphaPoint {
  double y = 2.0;
};

struct BetaCopied : alpha::AlphaCopied {
  double y = 2.0;
};

struct BetaConstructed : alpha::AlphaCopied {
  explicit BetaConstructed(double first) { x = first; }
};

struct BetaOrdered : alpha::AlphaOrdered {
  double y = 2.0;
  bool operator==(const BetaOrdered& other) const = default;
};

class BetaLoggedImpl : public alpha::AlphaLoggedImpl {
 public:
  using AlphaLoggedImpl::AlphaLoggedImpl;
  ~BetaLoggedImpl() override { log += "derived"; }
};
TORCH_MODULE(BetaLogged);

}  // namespace modular::beta
