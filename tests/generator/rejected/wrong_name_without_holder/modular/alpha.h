// Errors in and behind classes whose holders and constructors are supplied: places and fixes are the file's.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
};

class ProjectionImpl : public Module {
 public:
  explicit ProjectionImpl(const AlphaConfig& config)
      : proj(register_module("proj", linear(config.hidden_size, config.hidden_size, /*bias=*/false))) {}

  nn::Linear proj;
};  struct Other {};  // behind the holder, on its line

class AlphaDoubleImpl : public ProjectionImpl { public: Projection second{nullptr}; };

class AlphaTripleImpl : public ProjectionImpl {
  Projection third{nullptr}
};

}  // namespace modular::alpha
