// Functions of models that deserve fused kernels. Each has a plain ATen form here; if the program registers a fused
// operator for it (runtime/ops), that operator runs instead. Both agree within rounding and are differentiable.
#pragma once

#include <torch/nn/functional/loss.h>
#include <torch/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "runtime/model/cp.h"
#include "runtime/model/fused.h"
#include "runtime/model/tensors.h"

namespace modular {

namespace plain {

/// - x [..., features]
/// - returns [..., features]
inline Tensor quick_gelu(const Tensor& x) { return x * at::sigmoid(1.702 * x); }

}  // namespace plain

/// Applies an activation function by its config.json name: silu (swish), gelu, gelu_pytorch_tanh (gelu_new, gelu_fast),
/// quick_gelu, relu or relu2. Any other name is an error.
/// - x [..., features]
/// - returns [..., features]
inline Tensor activation(std::string_view name, const Tensor& x) {
  if (name == "silu" || name == "swish") return at::silu(x);
  if (name == "gelu") return at::gelu(x);
  if (name == "gelu_pytorch_tanh" || name == "gelu_new" || name == "gelu_fast") return at::gelu(x, "tanh");
  if (name == "quick_gelu") return fused.quick_gelu ? fused.quick_gelu(x) : plain::quick_gelu(x);
  if (name == "relu") return at::relu(x);
  if (name == "relu2") return at::relu(x).square();
  TORCH_CHECK(false, "unknown activation \"", std::string(name),
              "\": use silu, gelu, gelu_pytorch_tanh, quick_gelu, relu or relu2");
}

// The plain ATen forms of the functions below.
namespace plain {

/// The accumulation type of sums over many values.
inline at::ScalarType wide(at::ScalarType type) { return c10::promoteTypes(type, at::kFloat); }

inline Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  const Tensor values = x.to(wide(x.scalar_type()));
  const Tensor normalized = values * at::rsqrt(values.pow(2).mean(-1, /*keepdim=*/true) + eps);
  return (weight * normalized.to(weight.scalar_type())).to(x.scalar_type());
}

inline Tensor gated_activation(std::string_view name, const Tensor& gate, const Tensor& up) {
  return activation(name, gate) * up;
}

inline Tensor rotary(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const auto halves = x.chunk(2, -1);
  return (x * cos.unsqueeze(1) + at::cat({-halves[1], halves[0]}, -1) * sin.unsqueeze(1)).to(x.scalar_type());
}

inline Tensor rotary_adjacent(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const auto of_pair = [](const Tensor& table) {  // both halves of a table hold the same value per pair
    return table.narrow(-1, 0, table.size(-1) / 2).repeat_interleave(2, -1).unsqueeze(1);
  };
  const auto pairs = x.unflatten(-1, {-1, 2}).unbind(-1);
  return x * of_pair(cos) + at::stack({-pairs[1], pairs[0]}, -1).flatten(-2) * of_pair(sin);
}

inline Tensor cross_entropy(const Tensor& logits, const Tensor& targets) {
  return at::cross_entropy_loss(logits.flatten(0, -2).to(at::kFloat), targets.flatten(), {}, at::Reduction::Sum,
                                kIgnoredTarget);
}

}  // namespace plain

/// Root mean square norm (Zhang & Sennrich) over the last dimension, x / sqrt(mean(x²) + eps). It is computed in
/// float32, rounded to the type of `weight`, multiplied by `weight`, and rounded to the type of x.
/// - x [..., hidden]
/// - weight [hidden]
/// - returns [..., hidden]
inline Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  return fused.rms_norm ? fused.rms_norm(x, weight, eps) : plain::rms_norm(x, weight, eps);
}

/// Returns activation(name, gate) * up (Shazeer, GLU variants).
/// - gate, up [..., features]
/// - returns [..., features]
inline Tensor gated_activation(std::string_view name, const Tensor& gate, const Tensor& up) {
  return fused.gated_activation ? fused.gated_activation(name, gate, up) : plain::gated_activation(name, gate, up);
}

namespace detail {
/// Calls `rotate` with the first cos.size(-1) features of x and keeps the other features.
template <class Rotate>
Tensor rotate_first(const Tensor& x, const Tensor& cos, Rotate&& rotate) {
  const int64_t rotated = cos.size(-1), all = x.size(-1);
  if (rotated == all) return rotate(x);
  return at::cat({rotate(x.narrow(-1, 0, rotated)), x.narrow(-1, rotated, all - rotated)}, -1);
}
}  // namespace detail

/// Applies rotary position embeddings (Su et al., RoFormer) to the first `rotated` features. Feature i forms a pair
/// with feature i + rotated / 2, as in GPT-NeoX; the remaining features pass through. If the tables have a wider type
/// than x, the rotation is computed in that type and rounded once.
/// - x [batch, heads, seq, head_dim]
/// - cos, sin [batch or 1, seq, rotated] from rotary_tables(), without a gradient
/// - returns [batch, heads, seq, head_dim]
inline Tensor rotary(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  return detail::rotate_first(x, cos, [&](const Tensor& rotated) {
    return fused.rotary ? fused.rotary(rotated, cos, sin) : plain::rotary(rotated, cos, sin);
  });
}

/// rotary() with the two features of a pair adjacent to each other, as in GPT-J.
/// - x [batch, heads, seq, head_dim]
/// - cos, sin [batch or 1, seq, rotated] from rotary_tables(), without a gradient
/// - returns [batch, heads, seq, head_dim]
inline Tensor rotary_adjacent(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  return detail::rotate_first(x, cos, [&](const Tensor& rotated) { return plain::rotary_adjacent(rotated, cos, sin); });
}

/// Keeps values smoothly within ±cap: cap * tanh(x / cap). Without a cap, returns x.
/// - x [..., features]
/// - returns [..., features]
inline Tensor soft_cap(const Tensor& x, std::optional<double> cap) { return cap ? (x / *cap).tanh() * *cap : x; }

/// The target of each position is the next label; the last position has none.
/// - labels [batch, seq] int64
/// - returns [batch, seq] int64
inline Tensor next_tokens(const Tensor& labels) {
  return cp::part(at::constant_pad_nd(cp::whole(labels), {0, 1}, kIgnoredTarget).slice(1, 1));
}

/// The decoder's input for predicting `labels`: the labels shifted right by one after `start`, with `padding` where a
/// label is kIgnoredTarget.
/// - labels [batch, seq] int64
/// - returns [batch, seq] int64
inline Tensor previous_tokens(const Tensor& labels, int64_t start, int64_t padding) {
  const Tensor before = cp::part(at::constant_pad_nd(cp::whole(labels), {1, -1}, start));
  return before.masked_fill(before.eq(kIgnoredTarget), padding);
}

/// The target of each position or row is its own label.
/// - labels [...] int64
/// - returns [...] int64
inline Tensor same_labels(const Tensor& labels) { return labels; }

/// The sum of -log softmax(logits)[target] over all targets but kIgnoredTarget, in float32.
/// - logits [..., vocab]
/// - targets [...] int64
/// - returns [] float32
inline Tensor cross_entropy(const Tensor& logits, const Tensor& targets) {
  return fused.cross_entropy ? fused.cross_entropy(logits, targets) : plain::cross_entropy(logits, targets);
}

/// The mean over each row's positions that are not padding (Reimers & Gurevych, Sentence-BERT).
/// - hidden_states [batch, seq, hidden]
/// - padding [batch, seq] int64 or bool, 0 for padding, or undefined
/// - returns [batch, hidden]
inline Tensor mean_pooling(const Tensor& hidden_states, const Tensor& padding) {
  if (!padding.defined() && !bound.context) return hidden_states.mean(1);
  if (!padding.defined()) return cp::sum(hidden_states.sum(1)) / cp::whole_size(hidden_states.size(1));
  const Tensor weights = padding.to(hidden_states.scalar_type()).unsqueeze(-1);
  return cp::sum((hidden_states * weights).sum(1)) / cp::sum(weights.sum(1)).clamp_min(1e-9);
}

/// The hidden state at one position of each row. With context parallelism, positions are those of the full sequence.
/// - hidden_states [batch, seq, hidden]
/// - positions [batch] int64
/// - returns [batch, hidden]
inline Tensor tokens_at(const Tensor& hidden_states, const Tensor& positions) {
  const int64_t batch = hidden_states.size(0), seq = hidden_states.size(1);
  if (bound.context) {
    const Tensor others = positions.unsqueeze(1).ne(cp::positions(seq, positions.options()));  // [batch, seq]
    return cp::sum(hidden_states.masked_fill(others.unsqueeze(-1), 0.0).sum(1));
  }
  return hidden_states.flatten(0, 1).index_select(0, positions + at::arange(batch, positions.options()) * seq);
}

/// The hidden state of each row's first position, such as a class token's.
/// - hidden_states [batch, seq, hidden]
/// - returns [batch, hidden]
inline Tensor first_tokens(const Tensor& hidden_states) {
  if (!bound.context) return hidden_states.select(1, 0);
  return tokens_at(hidden_states, at::zeros({hidden_states.size(0)}, hidden_states.options().dtype(at::kLong)));
}

/// The hidden state of each row's last position that is not padding. Positions where `input_ids` equal `pad_token_id`
/// are padding. Without a `pad_token_id`, the last position is used, and more than one row is an error.
/// - hidden_states [batch, seq, hidden]
/// - input_ids [batch, seq] int64
/// - returns [batch, hidden]
inline Tensor last_tokens(const Tensor& hidden_states, const Tensor& input_ids, std::optional<int64_t> pad_token_id) {
  const int64_t batch = input_ids.size(0), seq = cp::whole_size(input_ids.size(1));
  TORCH_CHECK(pad_token_id || batch == 1, "pad_token_id is not given, so the last tokens of ", batch,
              " rows are unknown: set it, or give one row at a time");
  if (!pad_token_id && !bound.context) return hidden_states.select(1, seq - 1);
  if (!pad_token_id) return tokens_at(hidden_states, at::full({batch}, seq - 1, input_ids.options()));
  const Tensor tokens = cp::whole(input_ids).ne(*pad_token_id);
  return tokens_at(hidden_states, (at::arange(seq, input_ids.options()) * tokens).argmax(-1));
}

/// The summed loss of classifiers in float32. Integer labels are classes with cross entropy. Float labels have the
/// squared error for a `problem` of "regression" or a single label, and otherwise the binary cross entropy of each
/// label (transformers' problem_type). Labels equal to kIgnoredTarget do not count.
/// - logits [..., labels]
/// - labels [...] int64, or [..., labels] float32; also [...] float32 for a single label
/// - returns [] float32
inline Tensor classification_loss(const Tensor& logits, const Tensor& labels,
                                  const std::optional<std::string>& problem) {
  if (!labels.is_floating_point()) return cross_entropy(logits, labels);
  const Tensor wide = logits.to(at::kFloat).view_as(labels), none = labels.eq(kIgnoredTarget);
  const bool numbers = problem ? *problem == "regression" : logits.size(-1) == 1;
  const Tensor losses = numbers ? (wide - labels).square()
                                : at::binary_cross_entropy_with_logits(wide, labels, {}, {}, at::Reduction::None);
  return losses.masked_fill(none, 0.0).sum();
}

/// The number of targets that are not kIgnoredTarget.
/// - targets [...] int64
/// - returns [] int64
inline Tensor count_targets(const Tensor& targets) { return targets.ne(kIgnoredTarget).sum(); }

}  // namespace modular
