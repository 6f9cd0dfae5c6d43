// What a try statement does is not known: an initializer that comes after it in C++ stays after it, as an assignment.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaParsedImpl : public alpha::AlphaParsedImpl {
 public:
  explicit BetaParsedImpl(const std::string& text) : AlphaParsedImpl(text), length(std::ssize(text)) {}

  int64_t length;
};
TORCH_MODULE(BetaParsed);

}  // namespace modular::beta
