// The name of a function that gets another name, and a default argument that calls the base's method.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaNameImpl : public alpha::AlphaNameImpl {
 public:
  static int64_t length(int64_t times) { return times * 100; }
  std::string name(int64_t times) { return AlphaNameImpl::name(times) + "!"; }
  int64_t total(int64_t more = AlphaNameImpl::length(1)) { return more + length(1); }
};
TORCH_MODULE(BetaName);

}  // namespace modular::beta
