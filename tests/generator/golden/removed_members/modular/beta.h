// A removed field takes its registration along; a removed method and a removed config field are gone.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaConfig : alpha::AlphaConfig {
 private:
  using AlphaConfig::dropout;
};

class BetaPairImpl : public alpha::AlphaPairImpl {
 public:
  using AlphaPairImpl::AlphaPairImpl;
  Tensor forward(const Tensor& x) { return left(x); }
  Tensor only_right(const Tensor& x) = delete;

 private:
  using AlphaPairImpl::dropout;
  using AlphaPairImpl::right;
};
TORCH_MODULE(BetaPair);

}  // namespace modular::beta
