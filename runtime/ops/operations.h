// What a device brings for the fused operations: forward and backward on tensors, without autograd, which is added once
// for all devices (autograd.cc). CPUs have theirs in cpu/, CUDA in a library of its own (cuda/), loaded where there is
// a GPU.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <utility>

#include "runtime/model/attention_mask.h"
#include "runtime/model/dropout.h"
#include "runtime/ops/adamw.h"
#include "runtime/ops/cpu/kernels.h"
#include "runtime/ops/float8.h"

namespace modular {

using Gate = cpu::Gate;

/// All tensors are float32 or bfloat16, of one type where not said otherwise, and any strides.
struct Operations {
  /// y and float32 1 / rms(x) [rows] of x [..., hidden]; `weight` may be float32 beside a bfloat16 x.
  std::pair<at::Tensor, at::Tensor> (*rms_norm)(const at::Tensor& x, const at::Tensor& weight, double eps);
  /// The gradients of x and weight.
  std::pair<at::Tensor, at::Tensor> (*rms_norm_backward)(const at::Tensor& grad, const at::Tensor& x,
                                                         const at::Tensor& weight, const at::Tensor& inverse_rms);
  at::Tensor (*gated)(Gate gate_function, const at::Tensor& gate, const at::Tensor& up);
  /// The gradients of gate and up.
  std::pair<at::Tensor, at::Tensor> (*gated_backward)(Gate gate_function, const at::Tensor& grad,
                                                      const at::Tensor& gate, const at::Tensor& up);
  /// Null where a device has none of its own.
  at::Tensor (*quick_gelu)(const at::Tensor& x);
  /// The gradient of x.
  at::Tensor (*quick_gelu_backward)(const at::Tensor& grad, const at::Tensor& x);
  /// x [batch, heads, seq, head_dim], cos and sin [batch or 1, seq, head_dim]; `inverse` gives the gradient. The result
  /// is in memory as [batch, seq, heads, head_dim], which is how projections produce and consume it.
  at::Tensor (*rotary)(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, bool inverse);
  /// Float32 loss sum [] and, for the backward, log(sum(exp)) [rows] of logits [rows, vocab] and int64 targets [rows].
  std::pair<at::Tensor, at::Tensor> (*cross_entropy)(const at::Tensor& logits, const at::Tensor& targets);
  /// Writes the gradient of the logits into `result`, which may be the logits; `grad` is float32 []. On CPUs it is
  /// contiguous, on CUDA it has_rows_in_memory().
  void (*cross_entropy_backward)(const at::Tensor& grad, const at::Tensor& logits, const at::Tensor& targets,
                                 const at::Tensor& log_sum_exp, const at::Tensor& result);
  /// Output [batch, seq, heads * head_dim] and, for the backward, a float32 normalizer [batch, heads, seq] of query
  /// [batch, heads, seq, head_dim] and key and value [batch, key_value_heads, keys, head_dim]; under a mask that hides
  /// some there are as many keys as queries. A query that sees no key mixes 0. `biases` are float32 [batch or 1, heads
  /// or 1, seq or 1, keys], added to the scores, or undefined. `drawn` says which shares are dropped, or is null. Null
  /// where a device has none of its own.
  std::pair<at::Tensor, at::Tensor> (*attention)(const at::Tensor& query, const at::Tensor& key,
                                                 const at::Tensor& value, const AttentionMask& mask,
                                                 const at::Tensor& biases, double scale, const DropoutRng* drawn);
  /// The gradients of query, key, value and, where `of_biases`, the biases.
  std::array<at::Tensor, 4> (*attention_backward)(const at::Tensor& grad, const at::Tensor& query,
                                                  const at::Tensor& key, const at::Tensor& value,
                                                  const AttentionMask& mask, const at::Tensor& biases, bool of_biases,
                                                  double scale, const DropoutRng* drawn, const at::Tensor& output,
                                                  const at::Tensor& normalizer);
  /// exp(the sum of `steps` [..., length], float32, over (source, target]) where the source is not after the target,
  /// else 0: [..., target, source]. Null where a device has none of its own.
  at::Tensor (*decay_between)(const at::Tensor& steps);
  /// The gradient of steps.
  at::Tensor (*decay_between_backward)(const at::Tensor& grad, const at::Tensor& decay);
  /// x [batch, ..., features] with what is drawn dropped; the gradient's dropout is the same.
  at::Tensor (*dropout)(const at::Tensor& x, const DropoutRng& drawn);
  /// adamw() and sum_of_squares() of adamw.h; both null where a device has none of its own.
  void (*adamw)(const std::vector<AdamWParameter>& parameters, const AdamWFactors& factors,
                const std::optional<at::Tensor>& divisor, const std::optional<at::Tensor>& skipped);
  at::Tensor (*sum_of_squares)(const std::vector<at::Tensor>& tensors);
  /// to_float8() of float8.h; null where a device has none of its own.
  Float8 (*to_float8)(const at::Tensor& matrix, at::ScalarType type, Float8Layout layout, const at::Tensor& largest);
};

/// The CPU's attention, which cpu_operations() names.
std::pair<at::Tensor, at::Tensor> cpu_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                                const AttentionMask& mask, const at::Tensor& biases, double scale,
                                                const DropoutRng* drawn);
std::array<at::Tensor, 4> cpu_attention_backward(const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key,
                                                 const at::Tensor& value, const AttentionMask& mask,
                                                 const at::Tensor& biases, bool of_biases, double scale,
                                                 const DropoutRng* drawn, const at::Tensor& output,
                                                 const at::Tensor& normalizer);

/// Whether each row of [rows, columns] is contiguous, and apart from the next.
inline bool has_rows_in_memory(const at::Tensor& matrix) {
  return matrix.stride(1) == 1 && matrix.stride(0) >= matrix.size(1);
}

/// The CPU's operations.
const Operations& cpu_operations();

/// The operations for tensors on `device`, or null: the caller then takes the plain ATen form.
const Operations* operations_for(const at::Device& device);

}  // namespace modular
