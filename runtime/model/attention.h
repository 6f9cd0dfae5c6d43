// Attention, by which keys each query sees or by numbers that are added to its scores. Plain ATen forms, and in their
// place the fused ones that a program registers (runtime/ops).
#pragma once

#include <ATen/ATen.h>
#include <ATen/Context.h>

#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "runtime/model/attention_mask.h"
#include "runtime/model/cache.h"
#include "runtime/model/dropout.h"
#include "runtime/model/tensors.h"

namespace modular {

namespace detail {
/// Keeps cuDNN's attention away for a scope: with a mask, its gradient of the query can be NaN where a row's scores are
/// all very small, as those of padding are (pytorch issue 196678 of torch 2.11).
class WithoutCudnnAttention {
 public:
  explicit WithoutCudnnAttention(bool active) : restore_(active && at::globalContext().userEnabledCuDNNSDP()) {
    if (restore_) at::globalContext().setSDPUseCuDNN(false);
  }
  ~WithoutCudnnAttention() {
    if (restore_) at::globalContext().setSDPUseCuDNN(true);
  }
  WithoutCudnnAttention(const WithoutCudnnAttention&) = delete;
  WithoutCudnnAttention& operator=(const WithoutCudnnAttention&) = delete;

 private:
  bool restore_;
};

/// libtorch's attention under a mask of truths or numbers; undefined for none.
inline Tensor library_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                                bool is_causal, double scale) {
  const WithoutCudnnAttention without(mask.defined() && query.is_cuda());
  const auto given = mask.defined() ? std::optional<Tensor>(mask) : std::nullopt;
  return at::scaled_dot_product_attention(query, key, value, given, /*dropout_p=*/0.0, is_causal, scale,
                                          /*enable_gqa=*/query.size(1) != key.size(1))
      .transpose(1, 2)
      .flatten(2);
}
}  // namespace detail

// The plain ATen forms of the functions below. Masks are an AttentionMask, or a tensor of truths or of numbers.
namespace plain {

/// The mask is made a tensor where libtorch's kernels have no word for it; those of GPUs that are fast take none.
inline Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionMask& mask,
                        double scale) {
  const int64_t seq = query.size(2), keys = key.size(2);
  if (sees_all(mask, seq, keys)) return detail::library_attention(query, key, value, {}, /*is_causal=*/false, scale);
  if (mask.causal && seq == keys && !hides_earlier_keys(mask, keys))
    return detail::library_attention(query, key, value, {}, /*is_causal=*/true, scale);
  return detail::library_attention(query, key, value, visible_keys(mask, seq, keys, query.device()),
                                   /*is_causal=*/false, scale);
}

inline Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask, double scale) {
  return detail::library_attention(query, key, value, mask, /*is_causal=*/false, scale);
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

/// A mask as numbers to add to scores like these: those of truths lower a score where they hide a key.
inline Tensor mask_of_numbers(const Tensor& mask, const at::TensorOptions& scores) {
  if (mask.scalar_type() != at::kBool) return mask;
  return at::zeros(mask.sizes(), scores)
      .masked_fill(mask.logical_not(), lowest(at::typeMetaToScalarType(scores.dtype())));
}

/// `scores`, lowered where `mask` hides a key; a mask of numbers is added.
inline Tensor masked_scores(const Tensor& scores, const Tensor& mask) {
  return scores + mask_of_numbers(mask, scores.options());
}
inline Tensor masked_scores(const Tensor& scores, const AttentionMask& mask) {
  const int64_t seq = scores.size(2), keys = scores.size(3);
  if (sees_all(mask, seq, keys)) return scores;
  return masked_scores(scores, visible_keys(mask, seq, keys, scores.device()));
}

/// The shares [batch, heads, seq, keys] of the keys in what each query mixes, softly capped first where a cap is given.
template <class Mask>
Tensor attention_weights(const Tensor& query, const Tensor& key, const Mask& mask, double scale,
                         std::optional<double> softcap) {
  Tensor scores = attention_scores(query, key, scale);
  if (softcap) scores = (scores / *softcap).tanh() * *softcap;
  return masked_scores(scores, mask).softmax(-1, c10::promoteTypes(scores.scalar_type(), at::kFloat));
}

/// Each query's mixture of values by its `shares` [batch, heads, seq, keys] of them.
inline Tensor mix_values(const Tensor& shares, const Tensor& value) {
  const int64_t groups = shares.size(1) / value.size(1);
  return shares.to(value.scalar_type()).matmul(value.repeat_interleave(groups, 1)).transpose(1, 2).flatten(2);
}

/// With soft caps on the scores, which scaled_dot_product_attention does not know: rounded like the original's products
/// of matrices. A query that sees no key gives all keys the same weight.
template <class Mask>
Tensor capped_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Mask& mask, double scale,
                        double softcap) {
  return mix_values(attention_weights(query, key, mask, scale, softcap), value);
}

template <class Mask>
Tensor attention_dropping(const Tensor& query, const Tensor& key, const Tensor& value, const Mask& mask, double scale,
                          std::optional<double> softcap, const DropoutRng& drawn) {
  return mix_values(dropout_of_weights(attention_weights(query, key, mask, scale, softcap), drawn), value);
}

inline Tensor attention_with_sinks(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const AttentionMask& mask, double scale, const Tensor& sinks) {
  const Tensor scores = masked_scores(attention_scores(query, key, scale), mask);
  const Tensor sink =
      sinks.to(scores.scalar_type()).view({1, -1, 1, 1}).expand({scores.size(0), -1, scores.size(2), 1});
  const Tensor shares = at::cat({scores, sink}, -1).softmax(-1, c10::promoteTypes(scores.scalar_type(), at::kFloat));
  return mix_values(shares.narrow(-1, 0, scores.size(-1)), value);
}

}  // namespace plain

namespace detail {

inline Tensor with_cached(const Tensor& keys_or_values, std::optional<int64_t> reach = std::nullopt) {
  return bound.cache ? bound.cache->append(keys_or_values, reach) : keys_or_values;
}

/// How far back the queries of a forward and of those after it see, where that is not all of what was seen.
inline std::optional<int64_t> reach_back(const AttentionMask& mask) {
  return mask.causal && !mask.documents.defined() ? mask.reach : std::nullopt;
}

/// The program's fused form under a tensor of numbers; undefined where there is none.
inline Tensor fused_with_biases(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                                double scale, const DropoutRng* drawn = nullptr) {
  if (!fused.attention_with_biases || mask.scalar_type() == at::kBool) return {};
  return fused.attention_with_biases(query, key, value, mask, scale, drawn);
}

/// attention() and attention_with_biases() with a dropout layer that drops; `part` says which of all heads these are.
template <class Mask>
Tensor attention_dropping(const Tensor& query, const Tensor& key, const Tensor& value, const Mask& mask, double scale,
                          const nn::DropoutImpl& dropout, std::optional<double> softcap, int64_t part = 0) {
  TORCH_CHECK(!bound.cache, "a cache is not for training");
  if (!bound.dropout) {
    const Tensor shares = plain::attention_weights(query, key, mask, scale, softcap);
    return plain::mix_values(at::dropout(shares, dropout.p, /*train=*/true), value);
  }
  DropoutRng drawn = bound.dropout->draw(dropout);
  drawn.part = part;
  if constexpr (std::is_same_v<Mask, AttentionMask>) {
    if (fused.attention && !softcap) return fused.attention(query, key, value, mask, scale, &drawn);
  } else if (!softcap) {
    const Tensor numbers = plain::mask_of_numbers(mask, query.options());
    if (const Tensor mixed = fused_with_biases(query, key, value, numbers, scale, &drawn); mixed.defined())
      return mixed;
  }
  return plain::attention_dropping(query, key, value, mask, scale, softcap, drawn);
}

}  // namespace detail

/// Scaled dot product attention (Vaswani et al.), softmax(scale * query keyᵀ) value over the keys that each query sees.
/// Each head of keys and values serves heads / key_value_heads heads of queries (Ainslie et al., GQA). `softcap` keeps
/// the scores within ±softcap, smoothly (Gemma Team, Gemma 2). A cache keeps keys and values, of a sliding window no
/// more than it holds, and queries attend to what it kept before as well.
/// - query [batch, heads, seq, head_dim]
/// - key, value [batch, key_value_heads, seq, head_dim]
/// - returns [batch, seq, heads * head_dim]
inline Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionMask& mask,
                        double scale, std::optional<double> softcap = std::nullopt) {
  const auto reach = detail::reach_back(mask);
  const Tensor keys = detail::with_cached(key, reach), values = detail::with_cached(value, reach);
  if (bound.cache && fused.cached_attention) {
    const Tensor mixed = fused.cached_attention(query, keys, values, mask, scale, softcap);
    if (mixed.defined()) return mixed;
  }
  if (softcap) return plain::capped_attention(query, keys, values, mask, scale, *softcap);
  return fused.attention ? fused.attention(query, keys, values, mask, scale, nullptr)
                         : plain::attention(query, keys, values, mask, scale);
}

/// attention() with a tensor in the place of the mask, for numbers that are added to the scores.
/// - query [batch, heads, seq, head_dim]
/// - key, value [batch, key_value_heads, keys, head_dim]
/// - mask [batch or 1, 1, seq, keys]: numbers, which may differ between heads; or bool, true where a query sees a key
/// - returns [batch, seq, heads * head_dim]
inline Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask, double scale,
                        std::optional<double> softcap = std::nullopt) {
  TORCH_CHECK(mask.defined(),
              "attention under an undefined tensor: say what queries see by causal_mask, "
              "bidirectional_mask or whole_mask");
  const Tensor keys = detail::with_cached(key), values = detail::with_cached(value);
  if (softcap) return plain::capped_attention(query, keys, values, mask, scale, *softcap);
  const Tensor mixed = detail::fused_with_biases(query, keys, values, mask, scale);
  return mixed.defined() ? mixed : plain::attention(query, keys, values, mask, scale);
}

/// attention() that drops some of the shares which keys have in what a query mixes (Vaswani et al.).
/// - query [batch, heads, seq, head_dim]
/// - key, value [batch, key_value_heads, seq, head_dim]
/// - returns [batch, seq, heads * head_dim]
inline Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionMask& mask,
                        double scale, const nn::Dropout& dropout, std::optional<double> softcap = std::nullopt) {
  if (!dropout->drops()) return attention(query, key, value, mask, scale, softcap);
  return detail::attention_dropping(query, key, value, mask, scale, *dropout, softcap);
}

/// The same under a tensor.
/// - query [batch, heads, seq, head_dim]
/// - key, value [batch, key_value_heads, keys, head_dim]
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
/// - sinks [heads]
/// - returns [batch, seq, heads * head_dim]
inline Tensor attention_with_sinks(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const AttentionMask& mask, double scale, const Tensor& sinks) {
  const auto reach = detail::reach_back(mask);
  const Tensor keys = detail::with_cached(key, reach), values = detail::with_cached(value, reach);
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
  const Tensor keys = detail::with_cached(key), values = detail::with_cached(value);
  const Tensor mixed = detail::fused_with_biases(query, keys, values, biases, scale);
  return mixed.defined()
             ? mixed
             : plain::mix_values(plain::attention_weights(query, keys, biases, scale, std::nullopt), values);
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
  const Tensor visible = visible_keys(causal_mask(batch, /*window=*/0), seq, batch.input_ids.device());
  Tensor positions = at::arange(keys, batch.input_ids.options()).unsqueeze(0);
  if (batch.attention_mask.defined()) {
    const Tensor tokens = batch.attention_mask.ne(0).to(at::kLong);
    positions = (tokens.cumsum(-1) - 1) * tokens;
  }
  const Tensor biases = (slopes.view({1, -1, 1, 1}) * positions.view({-1, 1, 1, keys})).to(type);
  return biases.masked_fill(visible.logical_not(), plain::lowest(type));
}

}  // namespace modular
