#pragma once

#include <optional>

#include "runtime/model/attention_mask.h"

namespace modular::cpu {

/// Implements FusedFunctions::cached_attention for a generation step: few queries, on CPUs.
/// - query [batch, heads, seq, head_dim]
/// - keys [batch, key_value_heads, keys, head_dim], values [batch, key_value_heads, keys, value_dim]
/// - returns [batch, seq, heads * value_dim], or an undefined tensor
at::Tensor cached_attention(const at::Tensor& query, const at::Tensor& keys, const at::Tensor& values,
                            const AttentionMask& mask, double scale, std::optional<double> softcap);

}  // namespace modular::cpu
