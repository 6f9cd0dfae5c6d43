// CUDA kernels of the fused operations, launched on plain memory. This header does not include libtorch, to keep nvcc
// fast.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

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

}  // namespace modular::cuda
