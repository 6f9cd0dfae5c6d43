// CUDA kernels of runtime/ops/adamw.h. One launch processes several tensors. This header does not include libtorch.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/ops/adamw_factors.h"

namespace modular::cuda {

struct AdamWTensor {
  const __nv_bfloat16* gradient;
  float *value, *exp_avg, *exp_avg_sq;
  __nv_bfloat16* compute_copy;
  int64_t count;
  bool is_aligned;  // whether all pointers that a kernel reads are aligned to 16 bytes
};

/// The tensors of one launch, limited by the 4 KiB of kernel parameters.
struct AdamWTensors {
  static constexpr int kMost = 64;
  AdamWTensor items[kMost];
  int count;
};

/// Number of blocks of the launches below, each of which computes one sum.
int64_t count_adamw_blocks(const AdamWTensors& tensors);

/// `divisor` and `skipped` point to one number each, or are null.
void launch_adamw(const AdamWTensors& tensors, const AdamWFactors& factors, const float* divisor, const float* skipped,
                  cudaStream_t stream);
/// Sums of squares of the gradients; sums is [count_adamw_blocks].
void launch_sums_of_squares(const AdamWTensors& tensors, float* sums, cudaStream_t stream);

}  // namespace modular::cuda
