// The batch's positions without its mask: each rank would attend to its own positions only.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class MODEL_ENTRY("image-text-to-text") BetaForConditionalGenerationImpl
    : public alpha::AlphaForConditionalGenerationImpl {
 public:
  using AlphaForConditionalGenerationImpl::AlphaForConditionalGenerationImpl;

  AttentionMask mask_of_text(const Batch&) { return whole_mask(); }
};

}  // namespace modular::beta
