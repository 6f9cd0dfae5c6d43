// A linear layer, from which gated.h and normed.h derive.
#pragma once

#include "modular/modular.h"

namespace modular::projection {
MODULAR_FAMILY(Projection);

struct ProjectionConfig : Config {
  int64_t hidden_size = 64;
  IntegerOrString activation = "gelu";
};

class ProjectionLayerImpl : public Module {
 public:
  explicit ProjectionLayerImpl(const ProjectionConfig& config)
      : proj(linear(config.hidden_size, config.hidden_size, /*bias=*/true)) {}

  Tensor prepare(const Tensor& x) { return x; }
  Tensor finished(const Tensor& x) { return x; }
  Tensor forward(const Tensor& x) { return finished(proj(prepare(x))); }

  nn::Linear proj;
};

}  // namespace modular::projection
