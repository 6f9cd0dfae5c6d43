// Fused operations for the functions that models are made of (runtime/model/functions.h).
#pragma once

namespace modular {

/// From now on the model functions of this program run fused, with explicit gradients, on CPUs and, where
/// libmodular_cuda.so is beside the program and there is a GPU, on CUDA. Types other than float32 and bfloat16 keep
/// the plain ATen form. Large products of float32 matrices go to the library that is fastest on this processor
/// (runtime/ops/cpu/products.h), and gradients of bfloat16 tables are summed in float32 (runtime/ops/cpu/embedding.h).
void install_fused_functions();

}  // namespace modular
