// Fused operations for the functions that models are made of (runtime/model/functions.h).
#pragma once

namespace modular {

/// From now on the model functions of this program run fused, with explicit gradients, on CPUs and, where
/// libmodular_cuda.so is beside the program and there is a GPU, on CUDA. Types other than float32 and bfloat16 keep
/// the plain ATen form. In place of libtorch's own on CPUs, in all of the program, come kernels for products
/// (runtime/ops/cpu/gemm.h), linear layers (linear.h), GELU and SiLU (activations.h), layer norms (layer_norm.h),
/// patches (patches.h) and gradients of bfloat16 tables (embedding.h); on GPUs, kernels for layer norms
/// (cuda/layer_norm.h): from here on where libmodular_cuda has been loaded (gpu_count()), else from the first fused
/// function on that meets a CUDA tensor.
void install_fused_functions();

}  // namespace modular
