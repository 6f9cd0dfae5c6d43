#pragma once

#include <ATen/core/Tensor.h>

namespace modular::cpu {

/// left @ right [rows, outputs] for few rows and a transposed weight, as in a linear layer during a generation step.
/// Returns an undefined tensor if no cache is bound, if gradients are computed, or for operands that libtorch's
/// libraries multiply faster.
/// - left [rows, features], right [features, outputs]
at::Tensor skinny_gemm(const at::Tensor& left, const at::Tensor& right);

}  // namespace modular::cpu
