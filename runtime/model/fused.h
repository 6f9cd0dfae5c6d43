// The fused forms that a program registers for functions of models.
#pragma once

#include <optional>
#include <string_view>

#include "runtime/model/tensors.h"

namespace modular {

struct AttentionMask;
struct DropoutRng;

/// The sizes of a float8 GEMM must be multiples of this.
inline constexpr int64_t kFloat8Multiple = 16;

/// Fused operators of the program; null if there is none. Each has the contract of the function that calls it
/// (functions.h).
struct FusedFunctions {
  Tensor (*rms_norm)(const Tensor& x, const Tensor& weight, double eps) = nullptr;
  Tensor (*gated_activation)(std::string_view activation, const Tensor& gate, const Tensor& up) = nullptr;
  Tensor (*quick_gelu)(const Tensor& x) = nullptr;
  Tensor (*rotary)(const Tensor& x, const Tensor& cos, const Tensor& sin) = nullptr;
  /// Drops attention weights by `rng`; null for no dropout.
  Tensor (*attention)(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionMask& mask,
                      double scale, const DropoutRng* rng) = nullptr;
  /// Returns an undefined tensor if the device has no fused form; the caller then uses the plain form.
  Tensor (*attention_with_biases)(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& biases,
                                  double scale, const DropoutRng* rng) = nullptr;
  /// Attention of queries that follow cached keys, without gradients. Returns an undefined tensor if there is no form
  /// for these arguments; the caller then uses the other forms.
  Tensor (*cached_attention)(const Tensor& query, const Tensor& keys, const Tensor& values, const AttentionMask& mask,
                             double scale, std::optional<double> softcap) = nullptr;
  Tensor (*dropout)(const Tensor& x, const DropoutRng& rng) = nullptr;
  Tensor (*cross_entropy)(const Tensor& logits, const Tensor& targets) = nullptr;
  /// A linear layer in float8: x [..., in] times `weight`, [out, in] or, if `is_transposed`, [in, out], plus `bias`,
  /// which may be undefined.
  Tensor (*float8_linear)(const Tensor& x, const Tensor& weight, const Tensor& bias, bool is_transposed) = nullptr;
  /// Takes float32 steps.
  Tensor (*decay_between)(const Tensor& steps) = nullptr;
};

/// The program's fused operators, which runtime/ops installs.
inline FusedFunctions fused;

}  // namespace modular
