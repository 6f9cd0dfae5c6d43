// A device's implementation of the fused operations: forward and backward on tensors, without autograd, which is added
// once for all devices (autograd.cc). The CPU implementation is in cpu/; the CUDA one is a library of its own (cuda/),
// which is loaded if there is a GPU.
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

/// Unless stated otherwise, all tensors are float32 or bfloat16, of one type, with any strides.
struct Operations {
  /// Returns y and float32 1 / rms(x) [rows] for x [..., hidden]; `weight` may be float32 with a bfloat16 x.
  std::pair<at::Tensor, at::Tensor> (*rms_norm)(const at::Tensor& x, const at::Tensor& weight, double eps);
  /// Returns the gradients of x and weight.
  std::pair<at::Tensor, at::Tensor> (*rms_norm_backward)(const at::Tensor& grad, const at::Tensor& x,
                                                         const at::Tensor& weight, const at::Tensor& inverse_rms);
  at::Tensor (*gated)(Gate gate_function, const at::Tensor& gate, const at::Tensor& up);
  /// Returns the gradients of gate and up.
  std::pair<at::Tensor, at::Tensor> (*gated_backward)(Gate gate_function, const at::Tensor& grad,
                                                      const at::Tensor& gate, const at::Tensor& up);
  /// Null if the device has no form of its own.
  at::Tensor (*quick_gelu)(const at::Tensor& x);
  /// Returns the gradient of x.
  at::Tensor (*quick_gelu_backward)(const at::Tensor& grad, const at::Tensor& x);
  /// x [batch, heads, seq, head_dim], cos and sin [batch or 1, seq, head_dim]; `inverse` computes the gradient. The
  /// result is [batch, seq, heads, head_dim] in memory, as projections produce and consume it.
  at::Tensor (*rotary)(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, bool inverse);
  /// Returns the float32 loss sum [] and, for the backward, log(sum(exp)) [rows] of logits [rows, vocab] with int64
  /// targets [rows].
  std::pair<at::Tensor, at::Tensor> (*cross_entropy)(const at::Tensor& logits, const at::Tensor& targets);
  /// Writes the gradient of the logits to `result`, which may be the logits; `grad` is float32 []. `result` is
  /// contiguous on CPUs and has_rows_in_memory() on CUDA.
  void (*cross_entropy_backward)(const at::Tensor& grad, const at::Tensor& logits, const at::Tensor& targets,
                                 const at::Tensor& log_sum_exp, const at::Tensor& result);
  /// Returns the output [batch, seq, heads * head_dim] and, for the backward, a float32 normalizer [batch, heads, seq]
  /// for query [batch, heads, seq, head_dim] and key and value [batch, key_value_heads, keys, head_dim]. If the mask
  /// hides keys, there are as many keys as queries. The output of a query that sees no key is 0. `biases` are float32
  /// [batch or 1, heads or 1, seq or 1, keys], added to the scores, or undefined. `rng` determines dropout of the
  /// weights, or is null. Null if the device has no form of its own.
  std::pair<at::Tensor, at::Tensor> (*attention)(const at::Tensor& query, const at::Tensor& key,
                                                 const at::Tensor& value, const AttentionMask& mask,
                                                 const at::Tensor& biases, double scale, const DropoutRng* rng);
  /// Returns the gradients of query, key, value and, if `needs_biases`, the biases.
  std::array<at::Tensor, 4> (*attention_backward)(const at::Tensor& grad, const at::Tensor& query,
                                                  const at::Tensor& key, const at::Tensor& value,
                                                  const AttentionMask& mask, const at::Tensor& biases,
                                                  bool needs_biases, double scale, const DropoutRng* rng,
                                                  const at::Tensor& output, const at::Tensor& normalizer);
  /// exp(the sum of `steps` [..., length], float32, over (source, target]) if the source is not after the target, else
  /// 0:
  /// [..., target, source]. Null if the device has no form of its own.
  at::Tensor (*decay_between)(const at::Tensor& steps);
  /// Returns the gradient of steps.
  at::Tensor (*decay_between_backward)(const at::Tensor& grad, const at::Tensor& decay);
  /// Applies dropout to x [batch, ..., features]. The backward applies the same dropout to the gradient.
  at::Tensor (*dropout)(const at::Tensor& x, const DropoutRng& rng);
  /// adamw() and sum_of_squares() of adamw.h; both null if the device has no form of its own.
  void (*adamw)(const std::vector<AdamWParameter>& parameters, const AdamWFactors& factors,
                const std::optional<at::Tensor>& divisor, const std::optional<at::Tensor>& skipped);
  at::Tensor (*sum_of_squares)(const std::vector<at::Tensor>& tensors);
  /// to_float8() of float8.h; null if the device has no form of its own.
  Float8 (*to_float8)(const at::Tensor& matrix, at::ScalarType type, Float8Layout layout, const at::Tensor& largest);
};

/// CPU attention, which is part of cpu_operations().
std::pair<at::Tensor, at::Tensor> cpu_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                                const AttentionMask& mask, const at::Tensor& biases, double scale,
                                                const DropoutRng* rng);
std::array<at::Tensor, 4> cpu_attention_backward(const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key,
                                                 const at::Tensor& value, const AttentionMask& mask,
                                                 const at::Tensor& biases, bool needs_biases, double scale,
                                                 const DropoutRng* rng, const at::Tensor& output,
                                                 const at::Tensor& normalizer);

/// Whether each row of [rows, columns] is contiguous and rows do not overlap.
inline bool has_rows_in_memory(const at::Tensor& matrix) {
  return matrix.stride(1) == 1 && matrix.stride(0) >= matrix.size(1);
}

/// The CPU operations.
const Operations& cpu_operations();

/// The operations for tensors on `device`, or null: the caller then uses the plain ATen form.
const Operations* operations_for(const at::Device& device);

}  // namespace modular
