// An argument that is more than names and numbers would be evaluated more than once.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaSquareImpl : public alpha::AlphaSquareImpl {
 public:
  explicit BetaSquareImpl(int64_t size) : AlphaSquareImpl(torch::arange(size).numel()) {}
};
TORCH_MODULE(BetaSquare);

}  // namespace modular::beta
