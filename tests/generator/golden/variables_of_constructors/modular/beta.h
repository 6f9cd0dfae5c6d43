// Base and derived constructors have variables of one name: the base's is renamed.
#pragma once
#include "modular/alpha.h"
namespace modular::beta {
MODULAR_FAMILY(Beta);
struct BetaConfig : alpha::AlphaConfig {};
class BetaOneImpl : public alpha::AlphaOneImpl {
 public:
  explicit BetaOneImpl(const BetaConfig& config) : AlphaOneImpl(config) {
    const int64_t inner = config.size * 2;
    gate = register_module("gate", linear(config.size, inner, false));
  }
  nn::Linear gate{nullptr};
};
TORCH_MODULE(BetaOne);
}  // namespace modular::beta
