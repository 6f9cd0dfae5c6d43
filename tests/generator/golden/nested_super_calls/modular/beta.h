// Super calls in super calls' arguments keep their parentheses; of two bodies with one local in one block, and of const
// ones in others that are not, the second stays a method.
#pragma once
#include "modular/alpha.h"
namespace modular::beta {
MODULAR_FAMILY(Beta);
struct BetaConfig : alpha::AlphaConfig {};
class BetaGateImpl : public alpha::AlphaGateImpl {
 public:
  using AlphaGateImpl::AlphaGateImpl;
  int64_t widened(const int64_t& size) { return AlphaGateImpl::widened(AlphaGateImpl::widened(size)) * 3; }
  int64_t doubled(int64_t size) { return AlphaGateImpl::doubled(size) + 1; }
  void grow(int64_t size) {
    AlphaGateImpl::grow(size);
    AlphaGateImpl::grow(size);
  }
};
TORCH_MODULE(BetaGate);
}  // namespace modular::beta
