// Initializers that need what these constructors check.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaSizes : alpha::AlphaSizes {
  explicit BetaSizes(const alpha::AlphaSettings& settings)
      : AlphaSizes(settings), third(settings.sizes[2]), last(settings.sizes.back()) {}

  int64_t third;
  int64_t last;
};
struct BetaShared : alpha::AlphaShared {
  explicit BetaShared(const std::shared_ptr<alpha::AlphaSettings>& settings)
      : AlphaShared(settings), count(settings->sizes.size()) {}

  size_t count;
};

}  // namespace modular::beta
