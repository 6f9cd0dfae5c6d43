// Installs fused forms of the model functions (runtime/model/functions.h).
#pragma once

namespace modular {

/// Makes the model functions of this program run fused, with explicit gradients, on CPUs and, if libmodular_cuda.so is
/// next to the program and there is a GPU, on CUDA. Types other than float32 and bfloat16 keep the plain ATen form. On
/// CPUs it also replaces libtorch's own kernels in the entire program: GEMM (runtime/ops/cpu/replacements.h), linear
/// layers (linear.h), GELU and SiLU (operations.h), layer norms (layer_norm.h), patches (replacements.h) and gradients
/// of bfloat16 embedding tables (replacements.h). On GPUs it replaces layer norms (cuda/layer_norm.h): immediately if
/// libmodular_cuda is loaded (gpu_count()), else when a fused function first gets a CUDA tensor.
void install_fused_functions();

}  // namespace modular
