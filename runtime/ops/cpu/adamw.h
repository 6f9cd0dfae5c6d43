#pragma once

#include "runtime/ops/adamw.h"

namespace modular::cpu {

// CPU implementations of runtime/ops/adamw.h.
void adamw(const std::vector<AdamWParameter>& parameters, const AdamWFactors& factors,
           const std::optional<at::Tensor>& divisor, const std::optional<at::Tensor>& skipped);
at::Tensor sum_of_squares(const std::vector<at::Tensor>& tensors);

}  // namespace modular::cpu
