// A norm of what goes in.
#pragma once

#include "modular/projection.h"

namespace modular::normed {
MODULAR_FAMILY(Normed);

struct NormedConfig : projection::ProjectionConfig {};

class NormedLayerImpl : public projection::ProjectionLayerImpl {
 public:
  explicit NormedLayerImpl(const NormedConfig& config)
      : ProjectionLayerImpl(config), norm(LayerNorm(config.hidden_size, 1e-5)) {}

  Tensor prepare(const Tensor& x) { return norm(x); }

  LayerNorm norm;
};

}  // namespace modular::normed
