// Initializers written before the base's run before its body, and those after it see what that body did.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaLayerImpl : public alpha::AlphaLayerImpl {
 public:
  BetaLayerImpl(const alpha::AlphaConfig& config, int64_t layer)
      : sliding(config.layer_types[layer] == "sliding"),  // which the base's constructor asks for
        AlphaLayerImpl(config, sliding),
        layer(layer),
        gain(offset + 1.0) {}

  Tensor forward(const Tensor& x) { return AlphaLayerImpl::forward(x) * gain; }

  bool sliding;
  int64_t layer;
  double gain;
};
TORCH_MODULE(BetaLayer);

}  // namespace modular::beta
