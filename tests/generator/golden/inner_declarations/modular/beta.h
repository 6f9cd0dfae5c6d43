// Uses the declarations inside alpha's class, derives from one of them, and replaces one of two overloads.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaCounterImpl : public alpha::AlphaCounterImpl {
 public:
  /// A class that derives from the inherited one.
  struct More : AlphaCounterImpl::State {
    double b = 2.0;
  };

  REPLACES double get() const override { return 5.0; }

  REPLACES double sum(double x) {
    struct Total {
      double value = 0.0;
    };
    const Total total{AlphaCounterImpl::sum(x)};
    return total.value + 1.0;
  }

  REPLACES bool is_new() const { return state == State() && *this == *this; }

  /// Everything at once.
  REPLACES double both() {
    More more;
    more.a = halved(3);
    state = more;
    return more.twice() * more.b + AlphaCounterImpl::both() + peek(*this);
  }
};
TORCH_MODULE(BetaCounter);

}  // namespace modular::beta
