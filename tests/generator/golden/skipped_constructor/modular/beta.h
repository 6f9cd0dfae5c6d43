// skip_to<…> runs an ancestor's constructor and leaves out those in between; what they would have created is created here.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaConfig : alpha::AlphaConfig {
  int64_t wide_size = 32;
};

class BetaWideImpl : public alpha::AlphaWideImpl {
 public:
  explicit BetaWideImpl(const BetaConfig& config) : AlphaWideImpl(skip_to<AlphaWideImpl, AlphaBaseImpl>(config, 1e-5)) {
    wide = register_module("wide", linear(config.hidden_size, config.wide_size, false));
  }

  nn::Linear wide{nullptr};
};
TORCH_MODULE(BetaWide);

}  // namespace modular::beta
