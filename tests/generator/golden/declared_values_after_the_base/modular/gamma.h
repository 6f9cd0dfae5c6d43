#pragma once

#include "modular/alpha.h"

namespace modular::gamma {
MODULAR_FAMILY(Gamma);

class GammaPadImpl : public alpha::AlphaPadImpl {
 public:
  GammaPadImpl() = default;

  int64_t twice = size * 2;
};
TORCH_MODULE(GammaPad);
}  // namespace modular::gamma
