// Linear layers multiplied in float8 (Micikevicius et al., FP8 Formats for Deep Learning), as torchao scales them: each
// operand by a scale of its own, with which its largest number becomes float8's largest. Values and weights are e4m3,
// gradients e5m2; results are of x's type, and sums within a product float32.
#pragma once

#include <ATen/ATen.h>

#include <optional>

#include "runtime/model/fused.h"

namespace modular {

/// A matrix [rows, columns] as float8 numbers times a scale.
struct Float8 {
  at::Tensor values;      // [rows, columns], undefined where not asked for
  at::Tensor transposed;  // [columns, rows], likewise
  at::Tensor largest;     // [] float32: the largest absolute value of the matrix
  at::Tensor scale;       // [] float32
};

/// Which of the two a caller wants.
struct Float8Layout {
  bool values = false, transposed = false;
};

/// `matrix`, contiguous bfloat16, in `type`, at::kFloat8_e4m3fn or at::kFloat8_e5m2. `largest` is what an earlier call
/// found of it, or undefined.
Float8 to_float8(const at::Tensor& matrix, at::ScalarType type, Float8Layout layout, const at::Tensor& largest = {});

/// a [rows, inner] times b [columns, inner] transposed, plus a bias [columns]: [rows, columns] bfloat16. On GPUs
/// `is_fast` sums with fewer digits.
at::Tensor float8_matmul(const at::Tensor& a, const at::Tensor& scale_of_a, const at::Tensor& b,
                         const at::Tensor& scale_of_b, const std::optional<at::Tensor>& bias, bool is_fast);

/// x [..., in] times the weight, plus the bias, differentiable. The weight is [out, in], or [in, out] where
/// `is_transposed`. Of other than bfloat16, and of sizes that kFloat8Multiple does not divide, the ordinary product.
at::Tensor float8_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, bool is_transposed);

}  // namespace modular
