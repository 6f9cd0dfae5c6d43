// The functions that models are made of and that deserve fused kernels. Each has a plain ATen form here; where the
// program registers a fused operator for it (runtime/ops), that one runs. Results agree within rounding; gradients flow
// through both.
#pragma once

#include <torch/nn/functional/loss.h>
#include <torch/types.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/model/cache.h"
#include "runtime/model/dropout.h"
#include "runtime/model/tensors.h"

namespace modular {

/// An activation function by the name that config.json gives it: silu (swish), gelu, gelu_pytorch_tanh (gelu_new,
/// gelu_fast), quick_gelu, relu or relu2. Another name is an error.
/// - x [..., features]
/// - returns [..., features]
inline Tensor activation(std::string_view name, const Tensor& x) {
  if (name == "silu" || name == "swish") return at::silu(x);
  if (name == "gelu") return at::gelu(x);
  if (name == "gelu_pytorch_tanh" || name == "gelu_new" || name == "gelu_fast") return at::gelu(x, "tanh");
  if (name == "quick_gelu") return x * at::sigmoid(1.702 * x);
  if (name == "relu") return at::relu(x);
  if (name == "relu2") return at::relu(x).square();
  TORCH_CHECK(false, "unknown activation \"", std::string(name),
              "\": use silu, gelu, gelu_pytorch_tanh, quick_gelu, relu or relu2");
}

// The plain ATen forms of the functions below.
namespace plain {

/// The type in which sums over many values are made.
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
  const auto of_pair = [](const Tensor& table) {  // both tables hold each pair's value twice, in halves
    return table.narrow(-1, 0, table.size(-1) / 2).repeat_interleave(2, -1).unsqueeze(1);
  };
  const auto pairs = x.unflatten(-1, {-1, 2}).unbind(-1);
  return x * of_pair(cos) + at::stack({-pairs[1], pairs[0]}, -1).flatten(-2) * of_pair(sin);
}

inline Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask, double scale) {
  const auto opt_mask = mask.defined() ? std::optional<Tensor>(mask) : std::nullopt;
  const Tensor mixed =
      at::scaled_dot_product_attention(query, key, value, opt_mask, /*dropout_p=*/0.0, /*is_causal=*/!mask.defined(),
                                       scale, /*enable_gqa=*/query.size(1) != key.size(1));
  return mixed.transpose(1, 2).flatten(2);
}

/// The least finite value of a floating type.
inline double lowest(at::ScalarType type) {
  if (type == at::kHalf) return std::numeric_limits<c10::Half>::lowest();
  if (type == at::kBFloat16) return std::numeric_limits<c10::BFloat16>::lowest();
  return std::numeric_limits<float>::lowest();
}

/// The products of queries and keys, times `scale`: [batch, heads, seq, keys].
inline Tensor attention_scores(const Tensor& query, const Tensor& key, double scale) {
  return query.matmul(key.repeat_interleave(query.size(1) / key.size(1), 1).transpose(2, 3)) * scale;
}

/// `scores`, lowered where `mask` hides a key; without a mask, keys after their query.
inline Tensor masked_scores(const Tensor& scores, const Tensor& mask) {
  const int64_t seq = scores.size(2);
  const Tensor visible = mask.defined() ? mask : at::ones({seq, seq}, scores.options().dtype(at::kBool)).tril();
  return scores +
         at::zeros(visible.sizes(), scores.options()).masked_fill(visible.logical_not(), lowest(scores.scalar_type()));
}

/// The shares [batch, heads, seq, keys] of the keys in what each query mixes, softly capped first where a cap is given.
/// A mask of numbers is added.
inline Tensor attention_shares(const Tensor& query, const Tensor& key, const Tensor& mask, double scale,
                               std::optional<double> softcap) {
  Tensor scores = attention_scores(query, key, scale);
  if (softcap) scores = (scores / *softcap).tanh() * *softcap;
  const bool adds = mask.defined() && mask.scalar_type() != at::kBool;
  return (adds ? scores + mask : masked_scores(scores, mask)).softmax(-1, wide(scores.scalar_type()));
}

/// Each query's mixture of values by its `shares` [batch, heads, seq, keys] of them.
inline Tensor mix_values(const Tensor& shares, const Tensor& value) {
  const int64_t groups = shares.size(1) / value.size(1);
  return shares.to(value.scalar_type()).matmul(value.repeat_interleave(groups, 1)).transpose(1, 2).flatten(2);
}

/// With soft caps on the scores, which scaled_dot_product_attention does not know: rounded like the original's products
/// of matrices. A query that sees no key gives all keys the same weight.
inline Tensor capped_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                               double scale, double softcap) {
  return mix_values(attention_shares(query, key, mask, scale, softcap), value);
}

inline Tensor attention_dropping(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                                 double scale, std::optional<double> softcap, const DropoutDraw& drawn) {
  return mix_values(dropout_of_shares(attention_shares(query, key, mask, scale, softcap), drawn), value);
}

inline Tensor attention_with_sinks(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                                   double scale, const Tensor& sinks) {
  const Tensor scores = masked_scores(attention_scores(query, key, scale), mask);
  const Tensor sink =
      sinks.to(scores.scalar_type()).view({1, -1, 1, 1}).expand({scores.size(0), -1, scores.size(2), 1});
  const Tensor shares = at::cat({scores, sink}, -1).softmax(-1, wide(scores.scalar_type()));
  return mix_values(shares.narrow(-1, 0, scores.size(-1)), value);
}

inline Tensor cross_entropy(const Tensor& logits, const Tensor& targets) {
  return at::cross_entropy_loss(logits.flatten(0, -2).to(at::kFloat), targets.flatten(), {}, at::Reduction::Sum,
                                kIgnoredTarget);
}

}  // namespace plain

/// Root mean square norm (Zhang & Sennrich) over the last dimension, x / sqrt(mean(x²) + eps): in float32, rounded to
/// the type of `weight`, times that, rounded to x's type.
/// - x [..., hidden]
/// - weight [hidden]
/// - returns [..., hidden]
inline Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  return fused.rms_norm ? fused.rms_norm(x, weight, eps) : plain::rms_norm(x, weight, eps);
}

/// activation(name, gate) * up (Shazeer, GLU variants).
/// - gate, up [..., features]
/// - returns [..., features]
inline Tensor gated_activation(std::string_view name, const Tensor& gate, const Tensor& up) {
  return fused.gated_activation ? fused.gated_activation(name, gate, up) : plain::gated_activation(name, gate, up);
}

namespace detail {
/// Has `rotate` turn the first features of x, as many as the tables hold, and keeps the others.
template <class Rotate>
Tensor rotate_first(const Tensor& x, const Tensor& cos, Rotate&& rotate) {
  const int64_t turned = cos.size(-1), all = x.size(-1);
  if (turned == all) return rotate(x);
  return at::cat({rotate(x.narrow(-1, 0, turned)), x.narrow(-1, turned, all - turned)}, -1);
}
}  // namespace detail

/// Turns pairs of features by their position (Su et al., RoFormer). Feature i of the first `rotated` ones makes a pair
/// with feature i + rotated / 2, as GPT-NeoX has it; features after those stay as they are.
/// Tables of a wider type than x's have it computed in that, and rounded once.
/// - x [batch, heads, seq, head_dim]
/// - cos, sin [batch or 1, seq, rotated]: of rotary_tables(), without a gradient
/// - returns [batch, heads, seq, head_dim]
inline Tensor rotary(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  return detail::rotate_first(x, cos, [&](const Tensor& turned) {
    return fused.rotary ? fused.rotary(turned, cos, sin) : plain::rotary(turned, cos, sin);
  });
}

/// The same with the two features of a pair beside one another, as GPT-J has it.
/// - x [batch, heads, seq, head_dim]
/// - cos, sin [batch or 1, seq, rotated]: of rotary_tables(), without a gradient
/// - returns [batch, heads, seq, head_dim]
inline Tensor rotary_adjacent(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  return detail::rotate_first(x, cos, [&](const Tensor& turned) { return plain::rotary_adjacent(turned, cos, sin); });
}

/// Which keys a query of a decoder sees: those before it and itself. A `window` > 0 lets it see that many keys, itself
/// included. Keys are those of the `seq` queries, after all that a cache has seen.
/// - padding [batch, seq] int64 or bool, 0 for padding, or undefined
/// - returns [batch or 1, 1, seq, keys] bool, or undefined where all before and itself are seen and no cache holds any
inline Tensor causal_mask(const Tensor& padding, int64_t seq, int64_t window, const at::Device& device) {
  const int64_t seen = cache::seen(), keys = seen + seq;
  const bool windowed = window > 0 && window < keys;
  if (padding.defined()) cache::spoil();
  if (!padding.defined() && !windowed && seen == 0) return {};
  const Tensor position = at::arange(keys, at::TensorOptions().dtype(at::kLong).device(device));
  const Tensor distance = position.narrow(0, seen, seq).unsqueeze(1) - position.unsqueeze(0);
  Tensor visible = distance.ge(0);
  if (windowed) visible = visible.logical_and(distance.lt(window));
  visible = visible.view({1, 1, seq, keys});
  if (padding.defined()) visible = visible.logical_and(padding.to(at::kBool).view({padding.size(0), 1, 1, seq}));
  return visible;
}

/// The same for a batch, by its attention_mask.
/// - returns [batch or 1, 1, seq, keys] bool, or undefined
inline Tensor causal_mask(const Batch& batch, int64_t window) {
  return causal_mask(batch.attention_mask, batch.input_ids.size(1), window, batch.input_ids.device());
}

/// Which keys a query of an encoder sees: all that are not padding, before and after itself. A `reach` >= 0 is how far
/// away a key may stand.
/// - returns [batch or 1, 1, seq, seq] bool, always defined
inline Tensor bidirectional_mask(const Batch& batch, int64_t reach = -1) {
  cache::spoil();
  const int64_t seq = batch.input_ids.size(1);
  Tensor visible = at::ones({1, 1, seq, seq}, batch.input_ids.options().dtype(at::kBool));
  if (reach >= 0 && reach < seq) {
    const Tensor position = at::arange(seq, batch.input_ids.options());
    visible = (position.unsqueeze(1) - position.unsqueeze(0)).abs().le(reach).view({1, 1, seq, seq});
  }
  if (!batch.attention_mask.defined()) return visible;
  return visible.logical_and(batch.attention_mask.to(at::kBool).unsqueeze(1).unsqueeze(1));
}

/// The same where there is no padding: each of `seq` places sees all.
/// - returns [1, 1, seq, seq] bool
inline Tensor whole_mask(int64_t seq, const at::Device& device) {
  cache::spoil();
  return at::ones({1, 1, seq, seq}, at::TensorOptions().dtype(at::kBool).device(device));
}

/// ALiBi's slopes (Press et al., Train Short, Test Long), one for each of `heads` heads. A tp rank that holds some
/// heads has theirs.
/// - returns [heads] float32
inline Tensor alibi_slopes(int64_t heads, const at::Device& device) {
  const auto closest = int64_t{1} << static_cast<int>(std::log2(heads));  // the power of 2 that is not above it
  const auto powers = [&](double count, int64_t end, int64_t step) {
    const at::TensorOptions options = at::TensorOptions().device(device);
    return at::pow(at::full({}, std::exp2(-std::exp2(3.0 - std::log2(count))), options.dtype(at::kFloat)),
                   at::arange(1, end, step, options.dtype(at::kInt)));
  };
  const Tensor slopes = powers(static_cast<double>(closest), closest + 1, 1);
  if (closest == heads) return slopes;
  return at::cat({slopes, powers(2.0 * static_cast<double>(closest), 2 * (heads - closest) + 1, 2)});
}

/// ALiBi as what is added to attention's scores, in `type`: the key's position times the head's slope where the query
/// sees it, and the least finite value elsewhere. Queries and keys are those of causal_mask. Positions count what is no
/// padding; softmax does not see what is added to all scores of a query, so that this is the distance between the two.
/// - slopes [heads]
/// - returns [batch or 1, heads, seq, keys]
inline Tensor alibi_mask(const Batch& batch, const Tensor& slopes, at::ScalarType type) {
  const int64_t seq = batch.input_ids.size(1), keys = cache::seen() + seq;
  Tensor visible = causal_mask(batch, /*window=*/0);
  if (!visible.defined()) visible = at::ones({seq, keys}, batch.input_ids.options().dtype(at::kBool)).tril();
  Tensor positions = at::arange(keys, batch.input_ids.options()).unsqueeze(0);
  if (batch.attention_mask.defined()) {
    const Tensor tokens = batch.attention_mask.to(at::kLong);
    positions = (tokens.cumsum(-1) - 1) * tokens;
  }
  const Tensor biases = (slopes.view({1, -1, 1, 1}) * positions.view({-1, 1, 1, keys})).to(type);
  return biases.masked_fill(visible.logical_not(), plain::lowest(type));
}

namespace detail {

/// attention() and attention_with_biases() with a dropout layer that drops; `part` says which of all heads these are.
inline Tensor attention_dropping(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                                 double scale, const nn::DropoutImpl& dropout, std::optional<double> softcap,
                                 int64_t part = 0) {
  TORCH_CHECK(!bound.cache, "a cache is not for training");
  if (!bound.dropout) {
    const Tensor shares = plain::attention_shares(query, key, mask, scale, softcap);
    return plain::mix_values(at::dropout(shares, dropout.p, /*train=*/true), value);
  }
  DropoutDraw drawn = bound.dropout->draw(dropout);
  drawn.part = part;
  if (fused.attention && !softcap) return fused.attention(query, key, value, mask, scale, &drawn);
  return plain::attention_dropping(query, key, value, mask, scale, softcap, drawn);
}

}  // namespace detail

/// Scaled dot product attention (Vaswani et al.), softmax(scale * query keyᵀ + mask) value. Each head of keys and
/// values serves heads / key_value_heads heads of queries (Ainslie et al., GQA). `softcap` keeps the scores within
/// ±softcap, smoothly (Gemma Team, Gemma 2). A cache keeps keys and values, and queries attend to what it kept before
/// as well.
/// - query [batch, heads, seq, head_dim]
/// - key, value [batch, key_value_heads, seq, head_dim]
/// - mask [batch or 1, 1, seq, keys] bool, true where a query sees a key; or a number to add to each score, which may
///   differ between heads; or undefined, which is causal
/// - returns [batch, seq, heads * head_dim]
inline Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask, double scale,
                        std::optional<double> softcap = std::nullopt) {
  const Tensor keys = bound.cache ? bound.cache->append(key) : key;
  const Tensor values = bound.cache ? bound.cache->append(value) : value;
  if (softcap) return plain::capped_attention(query, keys, values, mask, scale, *softcap);
  return fused.attention ? fused.attention(query, keys, values, mask, scale, nullptr)
                         : plain::attention(query, keys, values, mask, scale);
}

/// attention() that drops some of the shares which keys have in what a query mixes (Vaswani et al.).
/// - query [batch, heads, seq, head_dim]
/// - key, value [batch, key_value_heads, seq, head_dim]
/// - mask [batch or 1, heads or 1, seq, keys], as attention() takes it
/// - returns [batch, seq, heads * head_dim]
inline Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask, double scale,
                        const nn::Dropout& dropout, std::optional<double> softcap = std::nullopt) {
  if (!dropout->drops()) return attention(query, key, value, mask, scale, softcap);
  return detail::attention_dropping(query, key, value, mask, scale, *dropout, softcap);
}

/// attention() with a logit for each head that takes part in every query's softmax and adds nothing to what it mixes
/// (OpenAI, gpt-oss).
/// - query [batch, heads, seq, head_dim]
/// - key, value [batch, key_value_heads, seq, head_dim]
/// - mask [batch or 1, 1, seq, keys] bool, true where a query sees a key; or undefined, which is causal
/// - sinks [heads]
/// - returns [batch, seq, heads * head_dim]
inline Tensor attention_with_sinks(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                                   double scale, const Tensor& sinks) {
  const Tensor keys = bound.cache ? bound.cache->append(key) : key;
  const Tensor values = bound.cache ? bound.cache->append(value) : value;
  return plain::attention_with_sinks(query, keys, values, mask, scale, sinks);
}

/// attention() with numbers that are added to the scores and hide keys too, as alibi_mask makes them. A query that sees
/// no key gives all keys the same weight, in its gradients too: those of scaled_dot_product_attention are as many times
/// too large there as there are keys.
/// - query [batch, heads, seq, head_dim]
/// - key, value [batch, key_value_heads, seq, head_dim]
/// - biases [batch or 1, heads or 1, seq, keys]
/// - returns [batch, seq, heads * head_dim]
inline Tensor attention_with_biases(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& biases,
                                    double scale) {
  const Tensor keys = bound.cache ? bound.cache->append(key) : key;
  const Tensor values = bound.cache ? bound.cache->append(value) : value;
  return plain::mix_values(plain::attention_shares(query, keys, biases, scale, std::nullopt), values);
}

/// The same with some of the shares dropped, which keys have in what a query mixes.
/// - query [batch, heads, seq, head_dim]
/// - key, value [batch, key_value_heads, seq, head_dim]
/// - biases [batch or 1, heads or 1, seq, keys]
/// - returns [batch, seq, heads * head_dim]
inline Tensor attention_with_biases(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& biases,
                                    double scale, const nn::Dropout& dropout) {
  if (!dropout->drops()) return attention_with_biases(query, key, value, biases, scale);
  return detail::attention_dropping(query, key, value, biases, scale, *dropout, std::nullopt);
}

/// Keeps values within ±cap, smoothly: cap * tanh(x / cap). Without a cap, x.
/// - x [..., features]
/// - returns [..., features]
inline Tensor soft_cap(const Tensor& x, std::optional<double> cap) { return cap ? (x / *cap).tanh() * *cap : x; }

/// The target of each position: the label one to the right; the last has none.
/// - labels [batch, seq] int64
/// - returns [batch, seq] int64
inline Tensor next_tokens(const Tensor& labels) {
  return at::constant_pad_nd(labels, {0, 1}, kIgnoredTarget).slice(1, 1);
}

/// The target of each position or row is its label.
/// - labels [...] int64
/// - returns [...] int64
inline Tensor same_labels(const Tensor& labels) { return labels; }

/// The labels of the rows that share theirs with another row; kIgnoredTarget for those that stand alone.
/// - labels [batch] int64
/// - returns [batch] int64
inline Tensor rows_with_positives(const Tensor& labels) {
  const Tensor equal = labels.unsqueeze(1).eq(labels.unsqueeze(0));
  return labels.masked_fill(equal.sum(1).lt(2), kIgnoredTarget);
}

/// The sum of -log softmax(logits)[target] over all targets but kIgnoredTarget, in float32.
/// - logits [..., vocab]
/// - targets [...] int64
/// - returns [] float32
inline Tensor cross_entropy(const Tensor& logits, const Tensor& targets) {
  return fused.cross_entropy ? fused.cross_entropy(logits, targets) : plain::cross_entropy(logits, targets);
}

/// The mean of each row's positions that are not padding (Reimers & Gurevych, Sentence-BERT).
/// - hidden_states [batch, seq, hidden]
/// - padding [batch, seq] int64 or bool, 0 for padding, or undefined
/// - returns [batch, hidden]
inline Tensor mean_pooling(const Tensor& hidden_states, const Tensor& padding) {
  if (!padding.defined()) return hidden_states.mean(1);
  const Tensor weights = padding.to(hidden_states.scalar_type()).unsqueeze(-1);
  return (hidden_states * weights).sum(1) / weights.sum(1).clamp_min(1e-9);
}

/// The last position of each row that is not padding. Padding is where `input_ids` have `pad_token_id`; without one,
/// more than one row is an error, and the last position is taken.
/// - hidden_states [batch, seq, hidden]
/// - input_ids [batch, seq] int64
/// - returns [batch, hidden]
inline Tensor last_tokens(const Tensor& hidden_states, const Tensor& input_ids, std::optional<int64_t> pad_token_id) {
  const int64_t batch = input_ids.size(0), seq = input_ids.size(1);
  TORCH_CHECK(pad_token_id || batch == 1, "pad_token_id is not given, so that the last tokens of ", batch,
              " rows are not known: set it, or give one row at a time");
  if (!pad_token_id) return hidden_states.select(1, seq - 1);
  const Tensor last = (at::arange(seq, input_ids.options()) * input_ids.ne(*pad_token_id)).argmax(-1);
  return hidden_states.flatten(0, 1).index_select(0, last + at::arange(batch, input_ids.options()) * seq);
}

/// Supervised contrastive loss (Khosla et al.) by cosines: for each row that has positives, rows of the same label, the
/// mean over these of -log softmax(cosine / temperature) among all other rows; summed over such rows, in float32. With
/// two rows a label it is the loss of SimCLR (Chen et al.).
/// - embeddings [batch, hidden]
/// - labels [batch] int64
/// - returns [] float32
inline Tensor contrastive_loss(const Tensor& embeddings, const Tensor& labels, double temperature = 0.05) {
  const Tensor wide = embeddings.to(at::kFloat);
  const Tensor unit = wide / wide.norm(2, {-1}, /*keepdim=*/true).clamp_min(1e-12);
  const Tensor self = at::eye(labels.size(0), labels.options().dtype(at::kBool));
  const Tensor scores = (unit.matmul(unit.t()) / temperature).masked_fill(self, -1e9);
  const Tensor targets = rows_with_positives(labels);
  const Tensor pairs = targets.unsqueeze(1).eq(labels.unsqueeze(0)).logical_and(self.logical_not());
  const Tensor positive = pairs.logical_and(targets.ne(kIgnoredTarget).unsqueeze(1)).to(at::kFloat);
  return -((at::log_softmax(scores, -1) * positive).sum(1) / positive.sum(1).clamp_min(1)).sum();
}

/// The number of targets that are not kIgnoredTarget.
/// - targets [...] int64
/// - returns [] int64
inline Tensor count_targets(const Tensor& targets) { return targets.ne(kIgnoredTarget).sum(); }

}  // namespace modular
