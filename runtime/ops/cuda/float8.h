// CUDA kernels of runtime/ops/float8.h. This header does not include libtorch.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace modular::cuda {

/// Raises `found` to the largest absolute value of x [count] if that is larger than the non-negative value it holds.
/// `count` is a multiple of 16, and x is aligned to 16 bytes.
void launch_largest(const __nv_bfloat16* x, int64_t count, float* found, cudaStream_t stream);

/// Writes x [rows, columns] divided by the scale that maps `largest` to the largest float8 number: e5m2 for gradients,
/// else e4m3. `values` and `transposed` may be null. Rows and columns are multiples of 16; all pointers are aligned to
/// 16 bytes.
void launch_to_float8(bool is_gradient, const __nv_bfloat16* x, const float* largest, unsigned char* values,
                      unsigned char* transposed, float* scale, int64_t rows, int64_t columns, cudaStream_t stream);

}  // namespace modular::cuda
