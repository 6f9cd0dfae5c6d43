// The base of beta.h.
#pragma once

#include <string>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaNameImpl : public Module {
 public:
  static int64_t length(int64_t times) { return times + 1; }
  std::string name(int64_t times) {
    std::string text;
    for (int64_t index = 0; index < times; ++index) text += __func__;
    return text;
  }
};
TORCH_MODULE(AlphaName);

}  // namespace modular::alpha
