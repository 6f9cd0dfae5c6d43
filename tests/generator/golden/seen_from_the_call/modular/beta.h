// Where C++ sees a difference between a call and the text of its body, the body stays a method: arguments that change
// by another name, decltype, noexcept, lists, and names of enumerators. A comma gets parentheses.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaActsImpl : public alpha::AlphaActsImpl {
 public:
  int64_t by_value(int64_t& x) { return AlphaActsImpl::by_value(x); }
  decltype(auto) reference() { return AlphaActsImpl::reference(); }
  int64_t never_throws(int64_t index) { return AlphaActsImpl::never_throws(index) + 1; }
  int64_t both(int64_t x) {
    const int64_t first = AlphaActsImpl::both(x);
    return first + 1;
  }
  int64_t number_of() { return AlphaActsImpl::number_of() * AlphaActsImpl::number_of({4}); }
  int64_t speed() {
    const int64_t fast = 100;
    return AlphaActsImpl::speed() + fast;
  }
};
TORCH_MODULE(BetaActs);

}  // namespace modular::beta
