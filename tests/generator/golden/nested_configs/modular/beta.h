// Redeclares one of the inner configs, with a default of its own and a new field.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaVisionConfig : alpha::AlphaVisionConfig {
  int64_t size = 12;
  bool has_norm = true;
};

struct BetaConfig : alpha::AlphaConfig {
  BetaVisionConfig vision_config;
};

using BetaForImageClassification MODEL_ENTRY("image-classification") = alpha::AlphaForImageClassification;

}  // namespace modular::beta
