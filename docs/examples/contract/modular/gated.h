// A gate on what comes out, and no bias.
#pragma once

#include "modular/projection.h"

namespace modular::gated {
MODULAR_FAMILY(Gated);

struct GatedConfig : projection::ProjectionConfig {};

class GatedLayerImpl : public projection::ProjectionLayerImpl {
 public:
  explicit GatedLayerImpl(const GatedConfig& config)
      : ProjectionLayerImpl(config), gate(linear(config.hidden_size, config.hidden_size, /*bias=*/false)) {
    proj = remake(proj, linear(config.hidden_size, config.hidden_size, /*bias=*/false));
  }

  REPLACES Tensor finished(const Tensor& x) { return x * torch::sigmoid(gate(x)); }

  nn::Linear gate;
};

}  // namespace modular::gated
