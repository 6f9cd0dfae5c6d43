// Own code that names a base's constant which the family replaces: flattened, only the family's own is there.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

constexpr int64_t kBetaMaxLength = 400;
inline const std::string kBetaPrefix = alpha::kAlphaPrefix + "layers.";

struct BetaRow : alpha::AlphaRow {
  int64_t ratio() const { return kBetaMaxLength / alpha::kAlphaMaxLength; }
};

}  // namespace modular::beta
