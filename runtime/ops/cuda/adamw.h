// CUDA kernels of runtime/ops/adamw.h: one launch goes through several tensors. No libtorch here.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/ops/adamw_factors.h"

namespace modular::cuda {

struct AdamWTensor {
  const __nv_bfloat16* gradient;
  float *value, *exp_avg, *exp_avg_sq;
  __nv_bfloat16* rounded;
  int64_t count;
  bool is_aligned;  // to 16 bytes, all of them that a kernel reads
};

/// What one launch takes: its parameters are 4 KiB at most.
struct AdamWTensors {
  static constexpr int kMost = 64;
  AdamWTensor of[kMost];
  int count;
};

/// Blocks that the launches below have, of which each finds one sum.
int64_t blocks_of_adamw(const AdamWTensors& tensors);

/// `divisor` and `skipped` are one number each, or null.
void launch_adamw(const AdamWTensors& tensors, const AdamWFactors& factors, const float* divisor, const float* skipped,
                  cudaStream_t stream);
/// Of the gradients; sums [blocks_of_adamw].
void launch_sums_of_squares(const AdamWTensors& tensors, float* sums, cudaStream_t stream);

}  // namespace modular::cuda
