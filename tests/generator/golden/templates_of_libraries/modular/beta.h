// A template of a library that holds a class of a spec is not that class, as a base nor as an alias.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaNode : alpha::AlphaNode {
  int64_t height = 2;
};

using BetaNodes = std::vector<alpha::AlphaNode>;

struct BetaForest : std::vector<alpha::AlphaNode> {
  int64_t trees() const { return static_cast<int64_t>(size()); }
};

}  // namespace modular::beta
