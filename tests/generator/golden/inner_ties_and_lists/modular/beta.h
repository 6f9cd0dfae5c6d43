// Ties of parameters within a member, a walk over a list within another, a parameter of every stage, and an entry that config.json
// calls otherwise.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

using BetaForMaskedLM MODEL_ENTRY("masked-lm", "BetaPredictor") = alpha::AlphaForMaskedLM;

}  // namespace modular::beta
