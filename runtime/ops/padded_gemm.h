// Matmuls whose features fill no 16 bytes, as GPT-2's vocabulary of 50,257 leaves them: cuBLAS multiplies
// them by kernels of older GPUs, at an eighth of the rate. With features of zeros beside them it takes its fast ones.
#pragma once

#include <ATen/ATen.h>

#include <optional>

namespace modular {

/// Whether the product of x [..., in] with a weight [out, in] is worth padding: on a GPU, of 16-bit numbers, large, and
/// of features that the memory of a row does not align.
bool is_worth_padding(const at::Tensor& x, const at::Tensor& weight);

/// x [..., in] times `weight` [out, in] transposed, plus `bias` [out]: [..., out], of whose rows each is followed in
/// memory by zeros. Without autograd.
at::Tensor padded_linear(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias);

/// `grad` [..., features] as [rows, padded features], with zeros in the last ones. In its own memory where that has
/// room for them that no other tensor sees.
at::Tensor padded_gradient(const at::Tensor& grad);

/// `weight` [out, in] as [padded out, in], with zeros in the last rows.
at::Tensor padded_weight(const at::Tensor& weight);

}  // namespace modular
