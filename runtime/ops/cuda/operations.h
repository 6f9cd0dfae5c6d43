// The parts of libmodular_cuda's table that have files of their own.
#pragma once

#include "runtime/ops/adamw.h"
#include "runtime/ops/float8.h"

namespace modular::cuda {

// As runtime/ops/adamw.h has them.
void adamw(const std::vector<AdamWParameter>& parameters, const AdamWFactors& factors,
           const std::optional<at::Tensor>& divisor, const std::optional<at::Tensor>& skipped);
at::Tensor sum_of_squares(const std::vector<at::Tensor>& tensors);

/// As runtime/ops/float8.h has it.
Float8 to_float8(const at::Tensor& matrix, at::ScalarType type, Float8Layout layout, const at::Tensor& largest);

}  // namespace modular::cuda
