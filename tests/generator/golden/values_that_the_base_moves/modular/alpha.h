// The base of beta.h. Its constructors take values that they move into fields.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaBox {
  explicit AlphaBox(std::string name, std::vector<int64_t> sizes = std::vector<int64_t>())
      : name(std::move(name)), sizes{std::move(sizes)} {
    size = this->name.size() + this->sizes.size();
  }
  std::string name;
  std::vector<int64_t> sizes;
  int64_t size = 0;
};
}  // namespace modular::alpha
