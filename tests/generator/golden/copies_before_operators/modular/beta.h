// An operator that changes its operand changes the copy.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct BetaReport : alpha::AlphaReport {
  alpha::AlphaLines text() override { return AlphaReport::text() << "end"; }
  int64_t total() const override { return AlphaReport::total() + 1; }
};

}  // namespace modular::beta
