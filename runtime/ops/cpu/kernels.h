// The inner loops of the fused operations on CPUs, over plain rows of memory. kernels.cc is compiled once per
// instruction set and kernels() selects at run time, so one binary runs on any x86-64 CPU and uses the instructions it
// has.
#pragma once

#include <cstdint>

#include "runtime/ops/adamw_factors.h"

namespace modular::cpu {

/// A bfloat16 number in memory.
struct Bf16 {
  uint16_t bits;
};

/// Activations of gated feed-forward networks. GELU is the tanh approximation.
enum class Gate { silu, gelu_tanh };

/// Activation functions. quick_gelu is x * sigmoid(1.702 x).
enum class Activation { silu, gelu, gelu_tanh, quick_gelu };

/// Dropout of one plane of one sample; see modular::DropoutRng.
struct Drop {
  uint32_t key[2];
  uint32_t sample, plane;
  uint32_t threshold;               // elements whose word is below this are dropped
  float scale;                      // factor of the other elements
  int64_t first_row, first_column;  // of this slice
};

/// Loops for one element type. All compute in float32. Rows are contiguous.
template <class T>
struct Kernels {
  /// y = weight * x / rms(x); with `rounds_first`, the quotient is rounded to T. inverse_rms is [rows].
  void (*rms_norm)(const T* x, const float* weight, bool rounds_first, T* y, float* inverse_rms, int64_t rows,
                   int64_t hidden, float eps);
  /// Writes dx and adds to weight_gradient [hidden].
  void (*rms_norm_backward)(const T* grad, const T* x, const float* weight, const float* inverse_rms, T* dx,
                            float* weight_gradient, int64_t rows, int64_t hidden);
  /// y = weight * (x - mean(x)) / deviation(x) + bias; mean and inverse_deviation are [rows].
  void (*layer_norm)(const T* x, const float* weight, const float* bias, T* y, float* mean, float* inverse_deviation,
                     int64_t rows, int64_t hidden, float eps);
  /// Writes dx and adds to weight_gradient and bias_gradient [hidden].
  void (*layer_norm_backward)(const T* grad, const T* x, const float* weight, const float* mean,
                              const float* inverse_deviation, T* dx, float* weight_gradient, float* bias_gradient,
                              int64_t rows, int64_t hidden);
  /// y = function(x), over `count` elements.
  void (*activate)(Activation function, const T* x, T* y, int64_t count);
  /// dx = grad * the function's slope at x.
  void (*activate_backward)(Activation function, const T* grad, const T* x, T* dx, int64_t count);
  /// y = gate_function(gate) * up, over `count` elements.
  void (*gated)(Gate function, const T* gate, const T* up, T* y, int64_t count);
  void (*gated_backward)(Gate function, const T* grad, const T* gate, const T* up, T* dgate, T* dup, int64_t count);
  /// Rotates a position's vectors of 2 * half elements, `head_stride` apart in x and contiguous in y; `direction` -1
  /// rotates back (the gradient).
  void (*rotate)(const T* x, int64_t heads, int64_t head_stride, const T* cos, const T* sin, T* y, int64_t half,
                 float direction);
  /// Returns log(sum(exp(row))).
  double (*log_sum_exp)(const T* logits, int64_t count);
  /// Returns log_sum_exp - logits[target].
  float (*negative_log_likelihood)(const T* logits, int64_t target, double log_sum_exp);
  /// y = scale * (softmax(logits) - one_hot(target)); y may alias the logits.
  void (*negative_log_likelihood_backward)(const T* logits, T* y, int64_t count, int64_t target, double log_sum_exp,
                                           float scale);
  /// decay = exp(sums[i] - sums[j]) for j up to i, else 0: [length, length].
  void (*decay)(const double* sums, T* decay, int64_t length);
  /// Writes the gradient of sums, given the gradient of decay.
  void (*decay_backward)(const T* grad, const T* decay, double* gradient, int64_t length);
  /// Applies dropout to rows `first` … of a slice of a sample, [rows, columns].
  void (*dropout)(const Drop& drop, const T* x, T* y, int64_t first, int64_t rows, int64_t columns);
  /// AdamW update of `count` elements with their gradient divided by `divisor`. Writes the new value also to
  /// `compute_copy`, rounded to T.
  void (*adamw)(const T* gradient, float* value, float* exp_avg, float* exp_avg_sq, T* compute_copy, int64_t count,
                float divisor, const AdamWFactors& factors);
  double (*sum_of_squares)(const T* x, int64_t count);
  /// y = left + right.
  void (*add)(const T* left, const T* right, T* y, int64_t count);
  /// y += x.
  void (*add_to)(T* y, const T* x, int64_t count);
};

/// The loops for this CPU. T is float or Bf16. The environment variable MODULAR_CPU_LEVEL (baseline, v3, v4, v4_bf16,
/// amx) selects a lower level than the CPU has.
template <class T>
const Kernels<T>& kernels();

/// While `skipped`, kernels() and attention_kernels() return loops that write nothing, on all threads: for measuring
/// only the allocations of the operations.
void skip_loops(bool skipped);

/// Whether the kernels may use AMX, the tile unit of Intel CPUs.
bool amx_present();

// Skinny GEMM: a few rows times a layer's weight, as in a generation step. Its time is dominated by reading the weight,
// which it does once, in the weight's memory order.

/// Features must be a multiple of the first; the second is the maximum number of rows.
inline constexpr int64_t kSkinnyStep = 32, kSkinnyRows = 16;

template <class T>
struct SkinnyGemmKernels {
  /// Packs x [rows, features] for `multiply` into kSkinnyRows * features floats, aligned to 64 bytes.
  void (*pack)(const T* x, int64_t x_row, float* packed, int64_t rows, int64_t features);
  /// y [rows, …] = packed weightᵀ for the outputs [first, last) of weight [outputs, features]; rows of y are `y_row`
  /// elements apart. Accumulates in float32.
  void (*multiply)(const float* packed, const T* weight, T* y, int64_t y_row, int64_t rows, int64_t features,
                   int64_t first, int64_t last);
};

/// The kernels for this CPU. T is float or Bf16.
template <class T>
const SkinnyGemmKernels<T>& skinny_gemm_kernels();

}  // namespace modular::cpu
