// The functions that models are made of and that deserve fused kernels. Each has a plain ATen form here; where the
// program registers a fused operator for it (runtime/ops), that one runs. Results agree within rounding; gradients flow
// through both.
#pragma once

#include <torch/nn/functional/loss.h>
#include <torch/types.h>

#include <string>
#include <string_view>

#include "runtime/model/tensors.h"

namespace modular {

/// Fused operators of the program; null where there is none. Same contracts as the functions below that call them.
struct FusedFunctions {
  Tensor (*rms_norm)(const Tensor& x, const Tensor& weight, double eps) = nullptr;
  Tensor (*gated_activation)(std::string_view activation, const Tensor& gate, const Tensor& up) = nullptr;
  Tensor (*rotary)(const Tensor& x, const Tensor& cos, const Tensor& sin) = nullptr;
  Tensor (*attention)(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                      double scale) = nullptr;
  Tensor (*cross_entropy)(const Tensor& logits, const Tensor& targets) = nullptr;
};

inline FusedFunctions fused;

/// An activation by the name that config.json gives it.
inline Tensor activation(std::string_view name, const Tensor& x) {
  if (name == "silu" || name == "swish") return at::silu(x);
  if (name == "gelu") return at::gelu(x);
  if (name == "gelu_pytorch_tanh" || name == "gelu_new" || name == "gelu_fast") return at::gelu(x, "tanh");
  if (name == "relu") return at::relu(x);
  if (name == "relu2") return at::relu(x).square();
  TORCH_CHECK(false, "unknown activation \"", std::string(name),
              "\": use silu, gelu, gelu_pytorch_tanh, relu or relu2");
}

// The plain ATen forms of the functions below.
namespace plain {

inline Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  const Tensor wide = x.to(at::kFloat);
  return weight * (wide * at::rsqrt(wide.pow(2).mean(-1, /*keepdim=*/true) + eps)).to(x.scalar_type());
}

inline Tensor gated_activation(std::string_view name, const Tensor& gate, const Tensor& up) {
  return activation(name, gate) * up;
}

inline Tensor rotary(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const auto halves = x.chunk(2, -1);
  return x * cos.unsqueeze(1) + at::cat({-halves[1], halves[0]}, -1) * sin.unsqueeze(1);
}

inline Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask, double scale) {
  const auto opt_mask = mask.defined() ? std::optional<Tensor>(mask) : std::nullopt;
  const Tensor mixed =
      at::scaled_dot_product_attention(query, key, value, opt_mask, /*dropout_p=*/0.0, /*is_causal=*/!mask.defined(),
                                       scale, /*enable_gqa=*/query.size(1) != key.size(1));
  return mixed.transpose(1, 2).flatten(2);
}

inline Tensor cross_entropy(const Tensor& logits, const Tensor& targets) {
  return at::cross_entropy_loss(logits.flatten(0, -2).to(at::kFloat), targets.flatten(), {}, at::Reduction::Sum,
                                kIgnoredTarget);
}

}  // namespace plain

/// Root mean square norm (Zhang & Sennrich) over the last dimension: in float32, rounded to x's type, then times
/// `weight`.
inline Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  return fused.rms_norm ? fused.rms_norm(x, weight, eps) : plain::rms_norm(x, weight, eps);
}

/// activation(gate) * up (Shazeer, GLU variants).
inline Tensor gated_activation(std::string_view name, const Tensor& gate, const Tensor& up) {
  return fused.gated_activation ? fused.gated_activation(name, gate, up) : plain::gated_activation(name, gate, up);
}

/// Rotates x [batch, heads, seq, head_dim] by tables [batch or 1, seq, head_dim], in halves (Su et al., as GPT-NeoX
/// lays it out).
inline Tensor rotary(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  return fused.rotary ? fused.rotary(x, cos, sin) : plain::rotary(x, cos, sin);
}

/// Which keys a query sees: [batch or 1, 1, seq, seq] bool, or undefined where that is just "all before and itself".
/// `padding` is [batch, seq] with 0 for padding, or undefined. A `window` > 0 lets a query see that many keys, itself
/// included.
inline Tensor causal_mask(const Tensor& padding, int64_t seq, int64_t window, const at::Device& device) {
  const bool windowed = window > 0 && window < seq;
  if (!padding.defined() && !windowed) return {};
  const Tensor position = at::arange(seq, at::TensorOptions().dtype(at::kLong).device(device));
  const Tensor distance = position.unsqueeze(1) - position.unsqueeze(0);
  Tensor visible = distance.ge(0);
  if (windowed) visible = visible.logical_and(distance.lt(window));
  visible = visible.view({1, 1, seq, seq});
  if (padding.defined()) visible = visible.logical_and(padding.to(at::kBool).view({padding.size(0), 1, 1, seq}));
  return visible;
}

/// Scaled dot product attention. query [batch, heads, seq, head_dim]; key and value [batch, key_value_heads, seq,
/// head_dim], each of whose heads serves heads / key_value_heads queries. `mask` as from causal_mask. Returns [batch,
/// seq, heads * head_dim].
inline Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask, double scale) {
  return fused.attention ? fused.attention(query, key, value, mask, scale)
                         : plain::attention(query, key, value, mask, scale);
}

/// The target of each position: the label one to the right; the last has none.
inline Tensor next_tokens(const Tensor& labels) {
  return at::constant_pad_nd(labels, {0, 1}, kIgnoredTarget).slice(1, 1);
}

/// The sum of -log softmax(logits)[target] over all targets but kIgnoredTarget, in float32. logits [..., vocab],
/// targets [...].
inline Tensor cross_entropy(const Tensor& logits, const Tensor& targets) {
  return fused.cross_entropy ? fused.cross_entropy(logits, targets) : plain::cross_entropy(logits, targets);
}

/// The number of targets: [] int64.
inline Tensor count_targets(const Tensor& targets) { return targets.ne(kIgnoredTarget).sum(); }

}  // namespace modular
