// An argument with effects would be evaluated more than once.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaSquareImpl : public alpha::AlphaSquareImpl {
 public:
  explicit BetaSquareImpl(int64_t size) : AlphaSquareImpl(at::randint(size, {1}).item<int64_t>()) {}
};
TORCH_MODULE(BetaSquare);

}  // namespace modular::beta
