// CUDA kernels of the fused operations, launched on plain memory. This header does not include libtorch, to keep nvcc
// fast.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/ops/adamw_factors.h"

namespace modular::cuda {

/// Shape and strides of x [batch, heads, seq, dim]; the last dimension is contiguous.
struct RotaryShape {
  int64_t batch, heads, seq, dim;
  int64_t batch_stride, head_stride, seq_stride;
  int64_t table_batch_stride;  // 0 if all sequences share one table
};

/// Dropout of [samples, rows, columns] (modular::DropoutRng).
struct Drop {
  const int64_t* samples;
  uint64_t key;
  uint32_t threshold;    // elements whose word is below this are dropped
  float scale;           // factor of the other elements
  int64_t first_column;  // of this slice
  int64_t first_row;     // of this slice of a sample
};

/// Number of blocks for a norm's backward: as many as a large GPU runs at once, if there are enough rows. It does not
/// depend on the GPU, because sums over rows depend on it.
int64_t norm_backward_blocks(bool is_layer_norm, int64_t rows, int64_t hidden);

/// Launches for one element type, float or __nv_bfloat16. All compute in float32; rows are contiguous.
template <class T>
struct Launch {
  /// `weight` [hidden] has type T, and normalized values are rounded to T before the multiplication; or `wide`: float.
  static void rms_norm(const T* x, const void* weight, bool wide, T* y, float* inverse_rms, int64_t rows,
                       int64_t hidden, float eps, cudaStream_t stream);
  /// partial is [blocks, hidden]: the weight's gradient is its sum over blocks.
  static void rms_norm_backward(const T* grad, const T* x, const void* weight, bool wide, const float* inverse_rms,
                                T* dx, float* partial, int64_t blocks, int64_t rows, int64_t hidden,
                                cudaStream_t stream);
  /// A null weight is all ones, a null bias all zeros.
  static void layer_norm(const T* x, const T* weight, const T* bias, T* y, float* mean, float* inverse_deviation,
                         int64_t rows, int64_t hidden, float eps, cudaStream_t stream);
  /// partial is [2, blocks, hidden]: for the weight, then for the bias.
  static void layer_norm_backward(const T* grad, const T* x, const T* weight, const float* mean,
                                  const float* inverse_deviation, T* dx, float* partial, int64_t blocks, int64_t rows,
                                  int64_t hidden, cudaStream_t stream);
  static void gated(bool is_silu, const T* gate, const T* up, T* y, int64_t count, cudaStream_t stream);
  static void gated_backward(bool is_silu, const T* grad, const T* gate, const T* up, T* dgate, T* dup, int64_t count,
                             cudaStream_t stream);
  /// y is [batch, seq, heads, dim]; `direction` -1 rotates back (the gradient).
  static void rotary(const T* x, const T* cos, const T* sin, T* y, const RotaryShape& shape, float direction,
                     cudaStream_t stream);
  /// losses and log_sum_exp are [rows]; both are 0 where the target is `ignored`. Rows of logits are `row_stride`
  /// elements apart.
  static void cross_entropy(const T* logits, const int64_t* targets, float* losses, float* log_sum_exp, int64_t rows,
                            int64_t vocab, int64_t row_stride, int64_t ignored, cudaStream_t stream);
  static void cross_entropy_backward(const float* grad, const T* logits, const int64_t* targets,
                                     const float* log_sum_exp, T* dlogits, int64_t rows, int64_t vocab,
                                     int64_t row_stride, int64_t dlogits_row_stride, int64_t ignored,
                                     cudaStream_t stream);
  static void dropout(const T* x, T* y, const Drop& drop, int64_t samples, int64_t rows, int64_t columns,
                      cudaStream_t stream);
};

// CUDA kernels of runtime/ops/adamw.h. One launch processes several tensors. This header does not include libtorch.

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

// CUDA kernels of runtime/ops/float8.h. This header does not include libtorch.

/// Raises `found` to the largest absolute value of x [count] if that is larger than the non-negative value it holds.
/// `count` is a multiple of 16, and x is aligned to 16 bytes.
void launch_largest(const __nv_bfloat16* x, int64_t count, float* found, cudaStream_t stream);

/// Writes x [rows, columns] divided by the scale that maps `largest` to the largest float8 number: e5m2 for gradients,
/// else e4m3. `values` and `transposed` may be null. Rows and columns are multiples of 16; all pointers are aligned to
/// 16 bytes.
void launch_to_float8(bool is_gradient, const __nv_bfloat16* x, const float* largest, unsigned char* values,
                      unsigned char* transposed, float* scale, int64_t rows, int64_t columns, cudaStream_t stream);

}  // namespace modular::cuda
