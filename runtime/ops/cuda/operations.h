// The entries of libmodular_cuda's table that have files of their own.
#pragma once

#include "runtime/ops/adamw.h"
#include "runtime/ops/float8.h"

namespace modular::cuda {

// CUDA implementations of runtime/ops/adamw.h.
void adamw(const std::vector<AdamWParameter>& parameters, const AdamWFactors& factors,
           const std::optional<at::Tensor>& divisor, const std::optional<at::Tensor>& skipped);
at::Tensor sum_of_squares(const std::vector<at::Tensor>& tensors);

/// CUDA implementation of runtime/ops/float8.h.
Float8 to_float8(const at::Tensor& matrix, at::ScalarType type, Float8Layout layout, const at::Tensor& largest);

/// Replaces libtorch's CUDA LayerNorm over the last dimension, forward and backward, with our own kernels (norms.cu)
/// for float32 and bfloat16 tensors whose weight and bias are of the same type or absent.
void install_layer_norm();

}  // namespace modular::cuda
