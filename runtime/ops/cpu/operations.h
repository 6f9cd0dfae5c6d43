// CPU implementations of the fused operations.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/model/attention_mask.h"
#include "runtime/ops/adamw.h"
#include "runtime/ops/cpu/attention_kernel.h"
#include "runtime/ops/cpu/kernels.h"
#include "runtime/ops/float8.h"

namespace modular::cpu {

// The form of a mask that attention loops read: a range of keys for each query, and what hides keys within the ranges
// where ranges do not suffice.

/// The keys that are visible to the queries of each row of a batch.
class VisibleKeys {
 public:
  /// For `seq` queries, which are the last of the keys; or any number of keys if `mask` hides none.
  VisibleKeys(const AttentionMask& mask, int64_t seq, int64_t keys);

  /// Sets the visible keys of a row in `shape`.
  void set(AttentionShape& shape, int64_t row) const;

 private:
  struct Row {
    std::vector<KeyRange> ranges;
    const bool* present;
    const int64_t* documents;
  };

  at::Tensor padding_, documents_;  // contiguous
  std::vector<Row> rows_;           // a single one if all rows are alike
};

/// function(x), elementwise. The result has x's type, float32 or bfloat16, and x's strides if x is dense, else it is
/// contiguous.
at::Tensor activate(Activation function, const at::Tensor& x);
/// The gradient of x. `grad` has the sizes and type of x.
at::Tensor activate_backward(Activation function, const at::Tensor& grad, const at::Tensor& x);

/// Replaces at::gelu and at::silu with these loops in the entire program: libtorch's unpack bfloat16 in more steps,
/// read non-contiguous tensors element by element, and call a library for tanh and erf. Calling it again does nothing.
void install_activations();

// CPU implementations of runtime/ops/adamw.h.
void adamw(const std::vector<AdamWParameter>& parameters, const AdamWFactors& factors,
           const std::optional<at::Tensor>& divisor, const std::optional<at::Tensor>& skipped);
at::Tensor sum_of_squares(const std::vector<at::Tensor>& tensors);

/// left [rows, depth] times right [depth, columns], or batched: [batch, rows, depth] and [batch, depth, columns]. Both
/// are float32 or both bfloat16, and each matrix is dense in one dimension. Adds `bias` [columns] of the same type to
/// each row if it is defined. The result is as exact as a float32 GEMM, and is rounded to bfloat16 if that is the type.
/// float32 numbers below about 1e-31 lose their last digits because AMX flushes parts below 1e-38 to 0. Returns an
/// undefined tensor if a float32 operand is not finite. Requires amx_present().
at::Tensor amx_gemm(const at::Tensor& left, const at::Tensor& right, const at::Tensor& bias);

/// Implements FusedFunctions::cached_attention for a generation step: few queries, on CPUs.
/// - query [batch, heads, seq, head_dim]
/// - keys [batch, key_value_heads, keys, head_dim], values [batch, key_value_heads, keys, value_dim]
/// - returns [batch, seq, heads * value_dim], or an undefined tensor
at::Tensor cached_attention(const at::Tensor& query, const at::Tensor& keys, const at::Tensor& values,
                            const AttentionMask& mask, double scale, std::optional<double> softcap);

/// CPU implementation of runtime/ops/float8.h.
Float8 to_float8(const at::Tensor& matrix, at::ScalarType type, Float8Layout layout, const at::Tensor& largest);

/// left @ right [rows, outputs] for few rows and a transposed weight, as in a linear layer during a generation step.
/// Returns an undefined tensor if no cache is bound, if gradients are computed, or for operands that libtorch's
/// libraries multiply faster.
/// - left [rows, features], right [features, outputs]
at::Tensor skinny_gemm(const at::Tensor& left, const at::Tensor& right);

}  // namespace modular::cpu
