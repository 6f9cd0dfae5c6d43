#pragma once

#include <ATen/core/Tensor.h>

namespace modular::cpu {

/// left @ right [rows, outputs] for few rows and the transpose of a weight, as a layer makes it of the tokens of a step
/// of generation; undefined where no cache is bound or gradients are computed, and for other operands, which libtorch's
/// libraries multiply faster.
/// - left [rows, features], right [features, outputs]
at::Tensor skinny_gemm(const at::Tensor& left, const at::Tensor& right);

}  // namespace modular::cpu
