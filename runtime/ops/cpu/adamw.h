#pragma once

#include "runtime/ops/adamw.h"

namespace modular::cpu {

// As runtime/ops/adamw.h has them.
void adamw(const std::vector<AdamWParameter>& parameters, const AdamWFactors& factors,
           const std::optional<at::Tensor>& divisor, const std::optional<at::Tensor>& skipped);
at::Tensor sum_of_squares(const std::vector<at::Tensor>& tensors);

}  // namespace modular::cpu
