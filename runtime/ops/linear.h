// Linear layers as single nodes of the graph.
#pragma once

#include <ATen/ATen.h>

#include <optional>

namespace modular {

// Alignment-padded GEMM for feature counts that are not multiples of 16 bytes, such as GPT-2's vocabulary of 50,257:
// cuBLAS uses kernels of older GPUs for these, at an eighth of the rate. Padding with zeros selects its fast kernels.

/// Whether it pays off to pad the GEMM of x [..., in] with a weight [out, in]: on a GPU, for large 16-bit matrices
/// whose rows are not aligned.
bool is_worth_padding(const at::Tensor& x, const at::Tensor& weight);

/// x [..., in] times `weight` [out, in] transposed, plus `bias` [out]: [..., out], with each row followed by zeros in
/// memory. Without autograd.
at::Tensor padded_linear(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias);

/// `grad` [..., features] as [rows, padded features], with zeros in the last features. It is padded in place if its
/// memory has room that no other tensor sees.
at::Tensor padded_gradient(const at::Tensor& grad);

/// `weight` [out, in] as [padded out, in], with zeros in the last rows.
at::Tensor padded_weight(const at::Tensor& weight);

/// Makes at::linear a single node of the graph in the entire program. libtorch builds it from a matmul with a
/// transposed view, whose gradient is a view too. autograd does not accumulate in place into views, so the gradient of
/// a matrix that is used twice, such as a tied embedding, takes three times its memory. Without a graph, or if the
/// operands are not a floating-point matrix and vector, the call stays libtorch's, except for GEMMs that are faster on
/// a GPU when padded. Calling it again does nothing.
void install_linear();

}  // namespace modular
