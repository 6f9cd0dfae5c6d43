// The base of beta.h: constructors that check what they are given.
#pragma once

#include <memory>
#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaSettings {
  std::vector<int64_t> sizes;
};

struct AlphaSizes {
  explicit AlphaSizes(const AlphaSettings& settings) {
    TORCH_CHECK(settings.sizes.size() > 2, "sizes is too short");
  }
};
struct AlphaShared {
  explicit AlphaShared(const std::shared_ptr<AlphaSettings>& settings) {
    TORCH_CHECK(settings != nullptr, "settings are missing");
  }
};

}  // namespace modular::alpha
