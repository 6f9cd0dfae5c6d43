// Fields of a config that the runtime cannot read from config.json.
#pragma once

#include <array>
#include <map>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  enum class Pooling { first, mean };
  Pooling pooling = Pooling::first;
  std::array<int64_t, 2> window{7, 7};
  std::map<std::string, double> extras;
  const int64_t fixed = 3;
  int64_t fields = 3;
  int64_t visit = 4;
};

}  // namespace modular::alpha
