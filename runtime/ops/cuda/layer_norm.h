#pragma once

namespace modular::cuda {

/// From now on LayerNorm over the last dimension of float32 and bfloat16 tensors on GPUs, whose weight and bias are of
/// the same type or absent, runs kernels of ours (norms.cu), forward and backward, in place of libtorch's.
void install_layer_norm();

}  // namespace modular::cuda
