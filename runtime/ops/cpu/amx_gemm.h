#pragma once

#include <ATen/core/Tensor.h>

namespace modular::cpu {

/// left [rows, depth] times right [depth, columns], or batched: [batch, rows, depth] and [batch, depth, columns]. Both
/// are float32 or both bfloat16, and each matrix is dense in one dimension. Adds `bias` [columns] of the same type to
/// each row if it is defined. The result is as exact as a float32 GEMM, and is rounded to bfloat16 if that is the type.
/// float32 numbers below about 1e-31 lose their last digits because AMX flushes parts below 1e-38 to 0. Returns an
/// undefined tensor if a float32 operand is not finite. Requires amx_present().
at::Tensor amx_gemm(const at::Tensor& left, const at::Tensor& right, const at::Tensor& bias);

}  // namespace modular::cpu
