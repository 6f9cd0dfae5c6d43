// Heads of keys and values that several ranks hold, whatever the config calls their number.
#pragma once

#include "modular/tiny.h"

namespace modular::renamed_heads {
MODULAR_FAMILY(RenamedHeads, .members = {{"num_key_value_heads", "groups_of_heads"}});

using RenamedHeadsForCausalLM MODEL_ENTRY("causal-lm") = tiny::TinyForCausalLM;

}  // namespace modular::renamed_heads
