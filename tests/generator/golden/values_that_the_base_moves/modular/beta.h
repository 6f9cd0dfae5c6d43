// Arguments that the base moves: the field is made of the argument itself, which is left as it is where C++ copies it.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaBox : alpha::AlphaBox {
  explicit BetaBox(std::string name) : AlphaBox(name), longer(name + "!") {}
  std::string longer;
};

struct BetaSink : alpha::AlphaBox {
  BetaSink(std::string name, std::vector<int64_t> sizes) : AlphaBox(std::move(name), std::move(sizes)) {}
};

struct BetaText : alpha::AlphaBox {
  explicit BetaText(const std::string& name) : AlphaBox(name + "s", std::vector<int64_t>(3, 2)) {}
};
}  // namespace modular::beta
