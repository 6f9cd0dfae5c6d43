// A class of two bases that both redefine a method, and one that says which of them it takes.
#pragma once

#include "modular/beta.h"
#include "modular/gamma.h"

namespace modular::delta {
MODULAR_FAMILY(Delta);

struct DeltaConfig : beta::BetaConfig {
  double norm_eps = 1e-5;
};

struct DeltaProjectionImpl : Both<beta::BetaProjectionImpl, gamma::GammaProjectionImpl> {};

using DeltaBlock = alpha::AlphaBlock;

/// Takes the first's.
struct DeltaOtherProjectionImpl : Both<beta::BetaProjectionImpl, gamma::GammaProjectionImpl> {
  Tensor finished(const Tensor& x) { return x * scale; }
};

}  // namespace modular::delta
