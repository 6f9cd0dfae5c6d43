// The base of beta.h.
#pragma once

#include <stdexcept>
#include <string>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaParsedImpl : public Module {
 public:
  explicit AlphaParsedImpl(const std::string& text) {
    try {
      number = std::stoll(text);
    } catch (const std::invalid_argument&) {
      number = 0;
    }
  }

  int64_t number;
};
TORCH_MODULE(AlphaParsed);

}  // namespace modular::alpha
