#pragma once

#include <ATen/core/Tensor.h>

namespace modular::cpu {

/// left [rows, depth] times right [depth, columns], or a batch of each, [batch, rows, depth] and [batch, depth,
/// columns]; both float32 or both bfloat16, and each matrix dense in one dimension. Plus `bias` [columns] of the same
/// type in each row, where it is defined. As exact as a product in float32, and then rounded to bfloat16 if that is the
/// type; of float32 numbers below some 1e-31 the last digits are lost, as the unit takes parts below 1e-38 for 0.
/// Undefined where a float32 operand holds what is not finite. Where amx_present().
at::Tensor amx_gemm(const at::Tensor& left, const at::Tensor& right, const at::Tensor& bias);

}  // namespace modular::cpu
