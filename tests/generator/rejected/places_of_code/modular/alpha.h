// Values that depend on where the code is, and a comment that a backslash continues.
#pragma once

#include <source_location>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

#define LINE __LINE__
class AlphaPlaceImpl : public Module {
 public:
  int64_t line() { return LINE; }
  int64_t here() { return std::source_location::current().line(); }
  int64_t after = 1;  // continues \
  int64_t hidden = 2;
};
TORCH_MODULE(AlphaPlace);
#undef LINE

}  // namespace modular::alpha
