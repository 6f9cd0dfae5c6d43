// `final` and a base class of another library stay.
#pragma once
#include <mutex>
#include "modular/alpha.h"
namespace modular::beta {
MODULAR_FAMILY(Beta);
class BetaActsImpl final : public alpha::AlphaActsImpl, public std::mutex {
 public:
  Tensor forward(const Tensor& x) { return x + 1.0; }
};
TORCH_MODULE(BetaActs);
}  // namespace modular::beta
