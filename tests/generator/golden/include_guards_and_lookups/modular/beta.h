// The same over another spec: what names specs' declarations vanishes.
#ifndef MODULAR_BETA_H
#define MODULAR_BETA_H
#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

namespace base = alpha;
using alpha::AlphaProjection;
using std::max;

class BetaProjectionImpl : public base::AlphaProjectionImpl {
 public:
  Tensor twice(const Tensor& x) { return AlphaProjectionImpl::forward(x) * max(2.0, 1.0); }
};

/// Two of them.
class BetaBlockImpl : public Module {
 public:
  explicit BetaBlockImpl(const base::AlphaConfig& config)
      : first(register_module("first", AlphaProjection(config))),
        second(register_module("second", base::AlphaProjection(config))) {}

  Tensor forward(const Tensor& x) { return second(first->forward(x)); }

  AlphaProjection first;
  base::AlphaProjection second;
};

}  // namespace modular::beta
#endif
