// Where code reads what an exception says, every message stays as it is.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaBox : alpha::AlphaBox {
  bool fails() const {
    try {
      fail();
    } catch (const std::runtime_error& error) {
      return std::string(error.what()) == "alpha failed";
    }
    return false;
  }
  std::string place() const { return __PRETTY_FUNCTION__; }  // the same in the generated class
};

}  // namespace modular::beta
