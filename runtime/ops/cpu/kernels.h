// The inner loops of the fused operations on CPUs, over plain rows of memory. kernels.cc is compiled once for each
// instruction set; kernels() picks at run time, so one binary runs on any x86-64 and uses what is there.
#pragma once

#include <cstdint>

#include "runtime/ops/adamw_factors.h"

namespace modular::cpu {

/// bfloat16 as it is in memory.
struct Bf16 {
  uint16_t bits;
};

/// Gates of gated feed-forward networks. GELU is its tanh form.
enum class Gate { silu, gelu_tanh };

/// Activation functions. quick_gelu is x * sigmoid(1.702 x).
enum class Activation { silu, gelu, gelu_tanh, quick_gelu };

/// What dropout drops of one plane of one sample: modular::DropoutRng.
struct Drop {
  uint32_t key[2];
  uint32_t sample, plane;
  uint32_t threshold;    // elements whose word is below it are dropped
  float scale;           // of the others
  int64_t first_column;  // of the part that is here
};

/// Loops for one element type. All compute in float32. Rows are contiguous.
template <class T>
struct Kernels {
  /// y = weight * x / rms(x), whose quotient `rounds_first` to T; inverse_rms [rows].
  void (*rms_norm)(const T* x, const float* weight, bool rounds_first, T* y, float* inverse_rms, int64_t rows,
                   int64_t hidden, float eps);
  /// Writes dx and adds to weight_gradient [hidden].
  void (*rms_norm_backward)(const T* grad, const T* x, const float* weight, const float* inverse_rms, T* dx,
                            float* weight_gradient, int64_t rows, int64_t hidden);
  /// y = weight * (x - mean(x)) / deviation(x) + bias; mean and inverse_deviation [rows].
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
  /// Rotates a position's vectors of 2 * half elements, `head_stride` apart in x and one after the other in y;
  /// `direction` -1 rotates back (the gradient).
  void (*rotate)(const T* x, int64_t heads, int64_t head_stride, const T* cos, const T* sin, T* y, int64_t half,
                 float direction);
  /// log(sum(exp(row))).
  double (*log_sum_exp)(const T* logits, int64_t count);
  /// log_sum_exp - logits[target].
  float (*negative_log_likelihood)(const T* logits, int64_t target, double log_sum_exp);
  /// y = scale * (softmax(logits) - one_hot(target)); y may be the logits.
  void (*negative_log_likelihood_backward)(const T* logits, T* y, int64_t count, int64_t target, double log_sum_exp,
                                           float scale);
  /// exp(sums[i] - sums[j]) for j up to i, else 0: [length, length].
  void (*decay)(const double* sums, T* decay, int64_t length);
  /// Writes the gradient of sums, from that of decay.
  void (*decay_backward)(const T* grad, const T* decay, double* gradient, int64_t length);
  /// Rows `first_row` … of a sample, [rows, columns].
  void (*dropout)(const Drop& drop, const T* x, T* y, int64_t first_row, int64_t rows, int64_t columns);
  /// AdamW's update of `count` elements, by their gradient over `divisor`; `rounded` is the new value.
  void (*adamw)(const T* gradient, float* value, float* exp_avg, float* exp_avg_sq, T* rounded, int64_t count,
                float divisor, const AdamWFactors& factors);
  double (*sum_of_squares)(const T* x, int64_t count);
  /// y = left + right.
  void (*add)(const T* left, const T* right, T* y, int64_t count);
  /// y += x.
  void (*add_to)(T* y, const T* x, int64_t count);
};

/// The loops for this processor. T is float or Bf16. The environment's MODULAR_CPU_LEVEL (baseline, v3, v4, v4_bf16,
/// amx) asks for less than the processor has.
template <class T>
const Kernels<T>& kernels();

/// While `skipped`, all threads' kernels() and attention_kernels() are loops that write nothing: for who only wants to
/// know what the operations around them allocate.
void skip_loops(bool skipped);

/// Whether they may use AMX, the tile unit of Intel's processors.
bool amx_present();

}  // namespace modular::cpu
