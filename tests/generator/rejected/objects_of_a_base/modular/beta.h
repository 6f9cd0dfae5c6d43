// C++ makes objects of the base here; flattened, they would be of the class that derives from it.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaPart : alpha::AlphaPart {
  int64_t size() const override { return 2; }
};
// Nothing that an object of AlphaPair would not have.
struct BetaPair : alpha::AlphaPair {
  int64_t twice() const { return 2 * first; }
};

class BetaGateImpl : public alpha::AlphaGateImpl {
 public:
  using AlphaGateImpl::AlphaGateImpl;
  Tensor forward(const Tensor& x) { return x + gain; }
};
TORCH_MODULE(BetaGate);

struct BetaBox : alpha::AlphaBox {
  struct Local : alpha::AlphaPart {};
  alpha::AlphaPart part;
  alpha::AlphaPair pair;

  int64_t variable() const {
    const alpha::AlphaPart made;
    return made.size();
  }
  int64_t temporary() const { return alpha::AlphaPart().size() + alpha::AlphaPair().first; }
  int64_t pointer() const { return std::make_unique<alpha::AlphaPart>()->size(); }
  int64_t container() const { return std::vector<alpha::AlphaPart>(1)[0].size(); }
  int64_t array() const {
    const alpha::AlphaPart made[] = {BetaPart()};
    return made[0].size();
  }
  int64_t argument() const { return alpha::alpha_size(BetaPart()); }
  int64_t element() const { return alpha::AlphaKeeper{BetaPart()}.part.size(); }
  int64_t parameter(alpha::AlphaPart given) const { return given.size(); }
  void grow() {
    parts.push_back(BetaPart());
    parts.emplace_back();
  }
  alpha::AlphaGate gate() const { return alpha::AlphaGate(2.0); }
  alpha::AlphaGate none() const { return alpha::AlphaGate(nullptr); }
  int64_t of_the_base() const { return static_cast<int64_t>(parts.size()) + alpha::AlphaKeeper().part.size(); }
};

}  // namespace modular::beta
