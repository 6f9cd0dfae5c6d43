// Attention under a mask of visible keys or with biases that are added to the scores. The plain ATen forms are here;
// the fused forms that a program registers (runtime/ops) run instead where they exist.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Context.h>

#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "runtime/model/attention_mask.h"
#include "runtime/model/cache.h"
#include "runtime/model/context_attention.h"
#include "runtime/model/dropout.h"
#include "runtime/model/tensors.h"

namespace modular {

namespace detail {
/// Disables cuDNN attention for a scope. With a mask, its query gradient can be NaN where all scores of a row are very
/// small, as in rows of padding (pytorch issue 196678, torch 2.11).
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

/// libtorch's scaled_dot_product_attention under a bool or additive mask; an undefined mask hides no key.
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

// The plain ATen forms of the functions below. A mask is an AttentionMask, or a bool or additive tensor.
namespace plain {

/// Builds a mask tensor only where libtorch's is_causal cannot express the mask: the fast GPU kernels take no mask
/// tensor.
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

/// The lowest finite value of a floating-point type.
inline double lowest(at::ScalarType type) {
  if (type == at::kHalf) return std::numeric_limits<c10::Half>::lowest();
  if (type == at::kBFloat16) return std::numeric_limits<c10::BFloat16>::lowest();
  return std::numeric_limits<float>::lowest();
}

/// Scaled scores, scale * query keyᵀ: [batch, heads, seq, keys].
inline Tensor attention_scores(const Tensor& query, const Tensor& key, double scale) {
  return query.matmul(key.repeat_interleave(query.size(1) / key.size(1), 1).transpose(2, 3)) * scale;
}

/// Returns `mask` as biases with the options of `scores`: a bool mask becomes 0 where a key is visible and the lowest
/// finite value where it is hidden; an additive mask is returned unchanged.
inline Tensor mask_of_numbers(const Tensor& mask, const at::TensorOptions& scores) {
  if (mask.scalar_type() != at::kBool) return mask;
  return at::zeros(mask.sizes(), scores)
      .masked_fill(mask.logical_not(), lowest(at::typeMetaToScalarType(scores.dtype())));
}

/// The mask of `scores` as a tensor; undefined if it hides no key.
inline Tensor mask_tensor(const Tensor& mask, const Tensor&) { return mask; }
inline Tensor mask_tensor(const AttentionMask& mask, const Tensor& scores) {
  const int64_t seq = scores.size(2), keys = scores.size(3);
  return sees_all(mask, seq, keys) ? Tensor() : visible_keys(mask, seq, keys, scores.device());
}

/// Returns `scores` with hidden keys lowered to the lowest finite value; an additive mask is added.
inline Tensor masked_scores(const Tensor& scores, const Tensor& mask) {
  return mask.defined() ? scores + mask_of_numbers(mask, scores.options()) : scores;
}

/// Returns `weights` with zeros for queries that see no key. An additive mask hides no key completely.
inline Tensor without_unseeing(const Tensor& weights, const Tensor& mask) {
  if (!mask.defined() || mask.scalar_type() != at::kBool) return weights;
  return weights.masked_fill(mask.any(-1, /*keepdim=*/true).logical_not(), 0);
}

/// Attention weights [batch, heads, seq, keys]: the softmax of the masked scores, which are soft-capped first if
/// `softcap` is set. A query that sees no key has weights of zero, or with soft caps the same weight for all keys.
template <class Mask>
Tensor attention_weights(const Tensor& query, const Tensor& key, const Mask& mask, double scale,
                         std::optional<double> softcap) {
  Tensor scores = attention_scores(query, key, scale);
  if (softcap) scores = (scores / *softcap).tanh() * *softcap;
  const Tensor visible = mask_tensor(mask, scores);
  const Tensor weights =
      masked_scores(scores, visible).softmax(-1, c10::promoteTypes(scores.scalar_type(), at::kFloat));
  return softcap ? weights : without_unseeing(weights, visible);
}

/// Sums the values with the attention `weights` [batch, heads, seq, keys].
inline Tensor mix_values(const Tensor& weights, const Tensor& value) {
  const int64_t groups = weights.size(1) / value.size(1);
  return weights.to(value.scalar_type()).matmul(value.repeat_interleave(groups, 1)).transpose(1, 2).flatten(2);
}

/// Attention with soft-capped scores, which scaled_dot_product_attention does not support. It rounds like the
/// original's matmuls. A query that sees no key gives all keys the same weight.
template <class Mask>
Tensor capped_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Mask& mask, double scale,
                        double softcap) {
  return mix_values(attention_weights(query, key, mask, scale, softcap), value);
}

template <class Mask>
Tensor attention_dropping(const Tensor& query, const Tensor& key, const Tensor& value, const Mask& mask, double scale,
                          std::optional<double> softcap, const DropoutRng& rng) {
  return mix_values(dropout_of_weights(attention_weights(query, key, mask, scale, softcap), rng), value);
}

template <class Mask>
Tensor attention_with_sinks(const Tensor& query, const Tensor& key, const Tensor& value, const Mask& mask, double scale,
                            const Tensor& sinks) {
  const Tensor all_scores = attention_scores(query, key, scale);
  const Tensor scores = masked_scores(all_scores, mask_tensor(mask, all_scores));
  const Tensor sink =
      sinks.to(scores.scalar_type()).view({1, -1, 1, 1}).expand({scores.size(0), -1, scores.size(2), 1});
  const Tensor weights = at::cat({scores, sink}, -1).softmax(-1, c10::promoteTypes(scores.scalar_type(), at::kFloat));
  return mix_values(weights.narrow(-1, 0, scores.size(-1)), value);
}

}  // namespace plain

namespace detail {

inline Tensor with_cached(const Tensor& keys_or_values, std::optional<int64_t> reach = std::nullopt) {
  return bound.cache ? bound.cache->append(keys_or_values, reach) : keys_or_values;
}

/// The farthest position back that queries of this forward and of later ones see; nullopt if they see every earlier
/// key.
inline std::optional<int64_t> reach_back(const AttentionMask& mask) {
  return mask.causal && !mask.documents.defined() ? mask.reach : std::nullopt;
}

/// Calls the program's fused form with an additive mask; returns an undefined tensor if none exists.
inline Tensor fused_with_biases(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                                double scale, const DropoutRng* rng = nullptr) {
  if (!fused.attention_with_biases || mask.scalar_type() == at::kBool) return {};
  return fused.attention_with_biases(query, key, value, mask, scale, rng);
}

/// What attend() gives a query that sees no key.
inline Unseeing if_no_key(std::optional<double> softcap) { return softcap ? Unseeing::mean : Unseeing::nothing; }

/// attention() of queries and all the keys that they may see.
inline Tensor attend(const Tensor& query, const Tensor& keys, const Tensor& values, const AttentionMask& mask,
                     double scale, std::optional<double> softcap) {
  if (softcap) return plain::capped_attention(query, keys, values, mask, scale, *softcap);
  return fused.attention ? fused.attention(query, keys, values, mask, scale, nullptr)
                         : plain::attention(query, keys, values, mask, scale);
}
inline Tensor attend(const Tensor& query, const Tensor& keys, const Tensor& values, const Tensor& mask, double scale,
                     std::optional<double> softcap) {
  if (softcap) return plain::capped_attention(query, keys, values, mask, scale, *softcap);
  const Tensor mixed = fused_with_biases(query, keys, values, mask, scale);
  return mixed.defined() ? mixed : plain::attention(query, keys, values, mask, scale);
}

/// attention_with_biases() of queries and all keys.
inline Tensor attend_with_biases(const Tensor& query, const Tensor& keys, const Tensor& values, const Tensor& biases,
                                 double scale) {
  const Tensor mixed = fused_with_biases(query, keys, values, biases, scale);
  return mixed.defined()
             ? mixed
             : plain::mix_values(plain::attention_weights(query, keys, biases, scale, std::nullopt), values);
}

/// attend() with dropout of the weights.
template <class Mask>
Tensor attend_dropping(const Tensor& query, const Tensor& keys, const Tensor& values, const Mask& mask, double scale,
                       std::optional<double> softcap, const DropoutRng& rng) {
  if constexpr (std::is_same_v<Mask, AttentionMask>) {
    if (fused.attention && !softcap) return fused.attention(query, keys, values, mask, scale, &rng);
  } else if (!softcap) {
    // The fused form gives a query zeros if all its keys have a bias of -infinity.
    const Tensor biases = mask.scalar_type() == at::kBool
                              ? at::zeros(mask.sizes(), query.options())
                                    .masked_fill(mask.logical_not(), -std::numeric_limits<float>::infinity())
                              : mask;
    if (const Tensor mixed = fused_with_biases(query, keys, values, biases, scale, &rng); mixed.defined()) return mixed;
  }
  return plain::attention_dropping(query, keys, values, mask, scale, softcap, rng);
}

/// attention() and attention_with_biases() with an active dropout layer; `part` is the index of this slice of the
/// heads.
template <class Mask>
Tensor attention_dropping(const Tensor& query, const Tensor& key, const Tensor& value, const Mask& mask, double scale,
                          const nn::DropoutImpl& dropout, std::optional<double> softcap, int64_t part = 0) {
  TORCH_CHECK(!bound.cache, "attention dropout with a cache: caches are for generation, not for training");
  if (!bound.dropout) {
    TORCH_CHECK(!bound.context, "dropout with libtorch's RNG over the positions of several ranks");
    const Tensor weights = plain::attention_weights(query, key, mask, scale, softcap);
    return plain::mix_values(at::dropout(weights, dropout.p, /*train=*/true), value);
  }
  DropoutRng rng = bound.dropout->draw(dropout);
  rng.part = part;
  return over_context(query, key, value, mask, if_no_key(softcap),
                      [&](const Queries& q, const Tensor& keys, const Tensor& values, const auto& own) {
                        DropoutRng of_queries = rng;
                        of_queries.first_row = q.first;
                        of_queries.part = part * q.head_slices + q.head_slice;
                        return attend_dropping(q.query, keys, values, own, scale, softcap, of_queries);
                      });
}

}  // namespace detail

/// Scaled dot product attention (Vaswani et al.): softmax(scale * query keyᵀ) value over the keys that each query sees.
/// Each key/value head serves heads / key_value_heads query heads (Ainslie et al., GQA). `softcap` keeps the scores
/// smoothly within ±softcap (Gemma Team, Gemma 2). With a cache, keys and values are appended to it and queries also
/// attend to the cached ones; for a sliding window the cache keeps only the window.
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
  return detail::over_context(query, keys, values, mask, detail::if_no_key(softcap),
                              [&](const detail::Queries& q, const Tensor& k, const Tensor& v, const auto& own) {
                                return detail::attend(q.query, k, v, own, scale, softcap);
                              });
}

/// attention() with a tensor mask: bool, or numbers that are added to the scores.
/// - query [batch, heads, seq, head_dim]
/// - key, value [batch, key_value_heads, keys, head_dim]
/// - mask [batch or 1, heads or 1, seq, keys]: numbers, which may differ between heads; or bool, true where a query
/// sees a key
/// - returns [batch, seq, heads * head_dim]
inline Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask, double scale,
                        std::optional<double> softcap = std::nullopt) {
  TORCH_CHECK(mask.defined(),
              "attention with an undefined mask tensor: pass the result of causal_mask, "
              "bidirectional_mask or whole_mask");
  const Tensor keys = detail::with_cached(key), values = detail::with_cached(value);
  return detail::over_context(query, keys, values, mask, detail::if_no_key(softcap),
                              [&](const detail::Queries& q, const Tensor& k, const Tensor& v, const Tensor& own) {
                                return detail::attend(q.query, k, v, own, scale, softcap);
                              });
}

/// attention() with dropout of the attention weights (Vaswani et al.).
/// - query [batch, heads, seq, head_dim]
/// - key, value [batch, key_value_heads, seq, head_dim]
/// - returns [batch, seq, heads * head_dim]
inline Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionMask& mask,
                        double scale, const nn::Dropout& dropout, std::optional<double> softcap = std::nullopt) {
  if (!dropout->drops()) return attention(query, key, value, mask, scale, softcap);
  return detail::attention_dropping(query, key, value, mask, scale, *dropout, softcap);
}

/// attention() with a tensor mask and dropout of the attention weights.
/// - query [batch, heads, seq, head_dim]
/// - key, value [batch, key_value_heads, keys, head_dim]
/// - mask [batch or 1, heads or 1, seq, keys]: bool, or numbers that are added to the scores
/// - returns [batch, seq, heads * head_dim]
inline Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask, double scale,
                        const nn::Dropout& dropout, std::optional<double> softcap = std::nullopt) {
  if (!dropout->drops()) return attention(query, key, value, mask, scale, softcap);
  return detail::attention_dropping(query, key, value, mask, scale, *dropout, softcap);
}

/// attention() with attention sinks: one logit per head that takes part in every query's softmax and contributes no
/// value (OpenAI, gpt-oss).
/// - query [batch, heads, seq, head_dim]
/// - key, value [batch, key_value_heads, seq, head_dim]
/// - sinks [heads]
/// - returns [batch, seq, heads * head_dim]
inline Tensor attention_with_sinks(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const AttentionMask& mask, double scale, const Tensor& sinks) {
  const auto reach = detail::reach_back(mask);
  const Tensor keys = detail::with_cached(key, reach), values = detail::with_cached(value, reach);
  return detail::over_context(query, keys, values, mask, detail::Unseeing::nothing,
                              [&](const detail::Queries& q, const Tensor& k, const Tensor& v, const auto& own) {
                                const int64_t heads = q.query.size(1);
                                return plain::attention_with_sinks(q.query, k, v, own, scale,
                                                                   sinks.narrow(0, q.head_slice * heads, heads));
                              });
}

/// attention() with biases that are added to the scores and also hide keys, such as those of alibi_mask(). A query that
/// sees no key gives all keys the same weight, in its gradients too; for such a query the gradients of
/// scaled_dot_product_attention are too large by a factor of the number of keys.
/// - query [batch, heads, seq, head_dim]
/// - key, value [batch, key_value_heads, seq, head_dim]
/// - biases [batch or 1, heads or 1, seq, keys]
/// - returns [batch, seq, heads * head_dim]
inline Tensor attention_with_biases(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& biases,
                                    double scale) {
  const Tensor keys = detail::with_cached(key), values = detail::with_cached(value);
  return detail::over_context(query, keys, values, biases, detail::Unseeing::mean,
                              [&](const detail::Queries& q, const Tensor& k, const Tensor& v, const Tensor& own) {
                                return detail::attend_with_biases(q.query, k, v, own, scale);
                              });
}

/// attention_with_biases() with dropout of the attention weights.
/// - query [batch, heads, seq, head_dim]
/// - key, value [batch, key_value_heads, seq, head_dim]
/// - biases [batch or 1, heads or 1, seq, keys]
/// - returns [batch, seq, heads * head_dim]
inline Tensor attention_with_biases(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& biases,
                                    double scale, const nn::Dropout& dropout) {
  if (!dropout->drops()) return attention_with_biases(query, key, value, biases, scale);
  return detail::attention_dropping(query, key, value, biases, scale, *dropout, std::nullopt);
}

/// ALiBi's slopes (Press et al., Train Short, Test Long), one for each of `heads` heads. A tp rank gets the slopes of
/// its own heads.
/// - returns [heads] float32
inline Tensor alibi_slopes(int64_t heads, const at::Device& device) {
  const auto closest = int64_t{1} << static_cast<int>(std::log2(heads));  // the largest power of 2 up to `heads`
  const auto powers = [&](double count, int64_t end, int64_t step) {
    const at::TensorOptions options = at::TensorOptions().device(device);
    return at::pow(at::full({}, std::exp2(-std::exp2(3.0 - std::log2(count))), options.dtype(at::kFloat)),
                   at::arange(1, end, step, options.dtype(at::kInt)));
  };
  const Tensor slopes = powers(static_cast<double>(closest), closest + 1, 1);
  if (closest == heads) return slopes;
  return at::cat({slopes, powers(2.0 * static_cast<double>(closest), 2 * (heads - closest) + 1, 2)});
}

/// ALiBi biases in `type`: the key's position times the head's slope where the query sees the key, and the lowest
/// finite value elsewhere. Visibility is that of causal_mask(). Positions do not count padding. Softmax ignores a
/// constant that is added to all scores of a query, so these biases act as the distance between query and key.
/// - slopes [heads]
/// - returns [batch or 1, heads, seq, keys]
inline Tensor alibi_mask(const Batch& batch, const Tensor& slopes, at::ScalarType type) {
  const int64_t seq = batch.input_ids.size(1), keys = cache::seen() + cp::whole_size(seq);
  const Tensor visible = visible_keys(causal_mask(batch, /*window=*/0), seq, batch.input_ids.device());
  Tensor positions = at::arange(keys, batch.input_ids.options()).unsqueeze(0);
  if (batch.attention_mask.defined()) {
    const Tensor tokens = cp::whole(batch.attention_mask).ne(0).to(at::kLong);
    positions = (tokens.cumsum(-1) - 1) * tokens;
  }
  const Tensor biases = (slopes.view({1, -1, 1, 1}) * positions.view({-1, 1, 1, keys})).to(type);
  return biases.masked_fill(visible.logical_not(), plain::lowest(type));
}

}  // namespace modular
