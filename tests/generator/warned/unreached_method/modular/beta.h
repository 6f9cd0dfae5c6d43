// A method that nothing calls, beside one that is called.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

struct MODEL_ENTRY("causal-lm") BetaForCausalLMImpl : alpha::AlphaForCausalLMImpl {
  Tensor project(const Tensor& hidden_states) { return halved(AlphaForCausalLMImpl::project(hidden_states)); }

  Tensor halved(const Tensor& x) { return x / 2; }

  Tensor get_scores(const Tensor& hidden_states) { return head(hidden_states) * 2; }
};

}  // namespace modular::beta
