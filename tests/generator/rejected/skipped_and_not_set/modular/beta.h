// What the skipped constructor creates is created by nothing.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaWideImpl : public alpha::AlphaWideImpl {
 public:
  explicit BetaWideImpl(const alpha::AlphaConfig& config) : AlphaWideImpl(skip_to<AlphaWideImpl, AlphaProjectionImpl>(config)) {}
};
TORCH_MODULE(BetaWide);

}  // namespace modular::beta
