// Classes that declare no constructor: they have their base's, also where other classes are made from them.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

using BetaBlockImpl = alpha::AlphaBlockImpl;

struct BetaProjectionImpl : alpha::AlphaProjectionImpl {
  Tensor forward(const Tensor& x) { return proj(x) * 2.0; }
};

struct BetaDeepProjectionImpl : public BetaProjectionImpl {
  Tensor forward(const Tensor& x) { return BetaProjectionImpl::forward(x) + 1.0; }
};

/// Two of the deep ones.
class BetaPairImpl : public Module {
 public:
  explicit BetaPairImpl(int64_t size)
      : first(BetaDeepProjection(size, size)), second(std::make_shared<BetaDeepProjectionImpl>(size, size)) {}

  Tensor forward(const Tensor& x) { return second(first(x)); }

  BetaDeepProjection first, second;
};

class BetaSmallPairImpl : public BetaPairImpl {
  // nothing is public here but what the base has
  double scale = 0.5;

 public:
  Tensor forward(const Tensor& x) { return BetaPairImpl::forward(x) * scale; }
};

using BetaModel = alpha::AlphaModel;

}  // namespace modular::beta
