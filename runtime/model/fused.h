// Where a program puts fused forms of the functions that models are made of.
#pragma once

#include <optional>
#include <string_view>

#include "runtime/model/tensors.h"

namespace modular {

struct AttentionMask;
struct DropoutRng;

/// What a product in float8 needs of its sizes: each a multiple of it.
inline constexpr int64_t kFloat8Multiple = 16;

/// Fused operators of the program; null where there is none. Same contracts as the functions that call them
/// (functions.h).
struct FusedFunctions {
  Tensor (*rms_norm)(const Tensor& x, const Tensor& weight, double eps) = nullptr;
  Tensor (*gated_activation)(std::string_view activation, const Tensor& gate, const Tensor& up) = nullptr;
  Tensor (*quick_gelu)(const Tensor& x) = nullptr;
  Tensor (*rotary)(const Tensor& x, const Tensor& cos, const Tensor& sin) = nullptr;
  /// Drops shares as `drawn` says; null for none.
  Tensor (*attention)(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionMask& mask,
                      double scale, const DropoutRng* drawn) = nullptr;
  /// Undefined where a device has no form of it; the caller then takes its own.
  Tensor (*attention_with_biases)(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& biases,
                                  double scale, const DropoutRng* drawn) = nullptr;
  /// Of the queries that follow what a cache has kept, without gradients. Undefined where there is no form of it for
  /// these; the caller then takes the others.
  Tensor (*cached_attention)(const Tensor& query, const Tensor& keys, const Tensor& values, const AttentionMask& mask,
                             double scale, std::optional<double> softcap) = nullptr;
  Tensor (*dropout)(const Tensor& x, const DropoutRng& drawn) = nullptr;
  Tensor (*cross_entropy)(const Tensor& logits, const Tensor& targets) = nullptr;
  /// A layer's product in float8: x [..., in] times `weight`, [out, in] or, where `is_transposed`, [in, out], plus
  /// `bias`, which may be undefined.
  Tensor (*float8_linear)(const Tensor& x, const Tensor& weight, const Tensor& bias, bool is_transposed) = nullptr;
  /// Of float32 steps.
  Tensor (*decay_between)(const Tensor& steps) = nullptr;
};

/// The program's, which runtime/ops installs.
inline FusedFunctions fused;

}  // namespace modular
