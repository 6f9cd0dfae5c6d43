#pragma once

namespace modular::cuda {

/// Replaces libtorch's CUDA LayerNorm over the last dimension, forward and backward, with our own kernels (norms.cu)
/// for float32 and bfloat16 tensors whose weight and bias are of the same type or absent.
void install_layer_norm();

}  // namespace modular::cuda
