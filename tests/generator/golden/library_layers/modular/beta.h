// A class of the contract in the place of an inherited one, by an alias.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

using BetaNorm = LayerNorm;

class BetaBlockImpl : public alpha::AlphaBlockImpl {
 public:
  explicit BetaBlockImpl(const alpha::AlphaConfig& config)
      : AlphaBlockImpl(config),
        last(register_module("last", BetaNorm(config.hidden_size, config.norm_eps, /*has_bias=*/false))) {}

  Tensor forward(const Tensor& x) { return last(AlphaBlockImpl::forward(x)); }

  BetaNorm last;
};

}  // namespace modular::beta
