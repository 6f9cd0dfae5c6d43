// CUDA kernels of runtime/ops/float8.h. No libtorch here.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace modular::cuda {

/// `found` becomes the largest absolute value of x [count] where that is more than what it holds, which is not
/// negative. `count` is a multiple of 16, and x aligned to 16 bytes.
void launch_largest(const __nv_bfloat16* x, int64_t count, float* found, cudaStream_t stream);

/// x [rows, columns] over a scale, with which `found` becomes float8's largest number: e5m2 of gradients, else e4m3.
/// `values` and `transposed` may be null. Rows and columns are multiples of 16, and all aligned to 16 bytes.
void launch_to_float8(bool of_gradients, const __nv_bfloat16* x, const float* found, unsigned char* values,
                      unsigned char* transposed, float* scale, int64_t rows, int64_t columns, cudaStream_t stream);

}  // namespace modular::cuda
