// Linear layers in float8 (Micikevicius et al., FP8 Formats for Deep Learning), scaled as in torchao: each operand has
// its own scale, which maps its largest absolute value to the largest float8 number. Values and weights are e4m3,
// gradients e5m2. Results have x's type; GEMMs accumulate in float32.
#pragma once

#include <ATen/ATen.h>

#include <optional>

#include "runtime/model/fused.h"

namespace modular {

/// A matrix [rows, columns] as float8 numbers and a scale.
struct Float8 {
  at::Tensor values;      // [rows, columns]; undefined if not requested
  at::Tensor transposed;  // [columns, rows]; undefined if not requested
  at::Tensor largest;     // [] float32: the largest absolute value of the matrix
  at::Tensor scale;       // [] float32
};

/// The layouts that a caller requests.
struct Float8Layout {
  bool values = false, transposed = false;
};

/// Converts `matrix`, contiguous bfloat16, to `type`, at::kFloat8_e4m3fn or at::kFloat8_e5m2. `largest` is the largest
/// absolute value from an earlier call, or undefined.
Float8 to_float8(const at::Tensor& matrix, at::ScalarType type, Float8Layout layout, const at::Tensor& largest = {});

/// a [rows, inner] times b [columns, inner] transposed, plus a bias [columns]: [rows, columns] bfloat16. On GPUs,
/// `is_fast` accumulates with lower precision.
at::Tensor float8_matmul(const at::Tensor& a, const at::Tensor& a_scale, const at::Tensor& b, const at::Tensor& b_scale,
                         const std::optional<at::Tensor>& bias, bool is_fast);

/// x [..., in] times the weight, plus the bias; differentiable. The weight is [out, in], or [in, out] if
/// `is_transposed`. Types other than bfloat16, and sizes that are not multiples of kFloat8Multiple, use the ordinary
/// linear layer.
at::Tensor float8_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, bool is_transposed);

}  // namespace modular
