// Tables of rotary position embeddings (Su et al., RoFormer) for every published type of `rope_parameters`.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "runtime/model/cache.h"
#include "runtime/model/config.h"
#include "runtime/model/cp.h"
#include "runtime/model/tensors.h"

namespace modular {

/// Cosine and sine by position: each [batch or 1, seq, rotated], where `rotated` is head_dim times
/// partial_rotary_factor. Both halves of the last dimension are equal.
using RotaryTables = std::pair<Tensor, Tensor>;

/// Radians per position of each pair of features, and the factor of cosine and sine.
struct RotaryFrequencies {
  Tensor by_pair;  // [rotated / 2] float32, or [..., rotated / 2] if they depend on the sequence length
  double scale = 1.0;
};

/// The batch's position_ids if given, else 0 … seq - 1, offset by the tokens that a cache has seen. With a cache,
/// positions start at the first token that is not padding.
/// - returns [batch or 1, seq] int64
inline Tensor position_ids(const Batch& batch) {
  if (batch.position_ids.defined()) return batch.position_ids;
  const int64_t first = cache::seen(), seq = batch.input_ids.size(1);
  if (bound.cache && batch.attention_mask.defined())
    return (batch.attention_mask.to(at::kLong).cumsum(-1) - 1).clamp_min(0).narrow(1, first, seq);
  if (bound.context) return cp::positions(seq, batch.input_ids.options()).unsqueeze(0);
  return at::arange(first, first + seq, batch.input_ids.options()).unsqueeze(0);
}

/// The positions of `ids` in a stack that has neither position_ids nor a cache: 0 … seq - 1.
/// - ids [batch, seq] int64
/// - returns [1, seq] int64
inline Tensor position_ids(const Tensor& ids) { return cp::positions(ids.size(1), ids.options()).unsqueeze(0); }

/// The positions of tokens other than `padding_idx`, which count from padding_idx + 1; those of padding are
/// `padding_idx` (Ott et al., fairseq).
/// - ids [batch, seq] int64
/// - returns [batch, seq] int64
inline Tensor counted_position_ids(const Tensor& ids, int64_t padding_idx) {
  const Tensor mask = cp::whole(ids).ne(padding_idx).to(at::kLong);
  return cp::part(mask.cumsum(1) * mask + padding_idx);
}

namespace detail {

template <class T>
const T& require_field(const RopeParameters& rope, std::string_view name, const std::optional<T>& value) {
  if (value) return *value;
  throw ConfigError("rope_parameters of rope_type \"" + rope.rope_type + "\" need \"" + std::string(name) +
                    "\": write it next to rope_type");
}

/// The factor of attention scores for contexts that are `factor` times longer.
inline double yarn_magnitude(double factor, double weight) {
  return factor <= 1.0 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0;
}

/// Peng et al., YaRN: high-frequency pairs keep their frequency, low-frequency pairs are interpolated, and in between
/// the interpolation weight changes linearly with the pair's index.
inline RotaryFrequencies yarn_frequencies(const RopeParameters& rope, int64_t dim, int64_t max_position_embeddings,
                                          const Tensor& frequencies) {
  const double original = static_cast<double>(rope.original_max_position_embeddings.value_or(max_position_embeddings));
  const double factor = rope.factor.value_or(static_cast<double>(max_position_embeddings) / original);
  const auto pair_with_turns = [&](double turns) {
    return static_cast<double>(dim) * std::log(original / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(rope.rope_theta));
  };
  const auto nonzero_or = [](const std::optional<double>& value, double fallback) {
    return value && *value != 0.0 ? *value : fallback;
  };
  double low = pair_with_turns(nonzero_or(rope.beta_fast, 32.0));
  double high = pair_with_turns(nonzero_or(rope.beta_slow, 1.0));
  if (rope.truncate.value_or(true)) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dim - 1));
  if (low == high) high += 0.001;
  const Tensor interpolated = ((at::arange(dim / 2, frequencies.options()) - low) / (high - low)).clamp(0, 1);

  const double mscale = rope.mscale.value_or(0.0), mscale_all_dim = rope.mscale_all_dim.value_or(0.0);
  const double scale = mscale != 0.0 && mscale_all_dim != 0.0
                           ? yarn_magnitude(factor, mscale) / yarn_magnitude(factor, mscale_all_dim)
                           : yarn_magnitude(factor, 1.0);
  return {frequencies / factor * interpolated + frequencies * (1 - interpolated),
          rope.attention_factor.value_or(scale)};
}

/// Ding et al., LongRoPE: a searched factor for each pair, with a second list of factors for sequences longer than the
/// original context.
inline RotaryFrequencies longrope_frequencies(const RopeParameters& rope, int64_t dim, int64_t max_position_embeddings,
                                              const Tensor& exponents, const Tensor& lengths) {
  const int64_t original = rope.original_max_position_embeddings.value_or(max_position_embeddings);
  const auto get_frequencies = [&](const char* name, const std::optional<std::vector<double>>& given) -> Tensor {
    const std::vector<double>& factors = require_field(rope, name, given);
    if (static_cast<int64_t>(factors.size()) != dim / 2)
      throw ConfigError(std::string(name) + " of rope_parameters has " + std::to_string(factors.size()) +
                        " numbers: write " + std::to_string(dim / 2) +
                        ", one for each pair of a head's rotated features");
    const Tensor by_pair = at::tensor(at::ArrayRef<double>(factors)).to(exponents.options());
    return 1.0 / (by_pair * at::pow(rope.rope_theta, exponents));
  };
  const double factor =
      rope.factor.value_or(static_cast<double>(max_position_embeddings) / static_cast<double>(original));
  const double scale = factor <= 1.0 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(original)));
  const Tensor by_pair = at::where(lengths.unsqueeze(-1) > original, get_frequencies("long_factor", rope.long_factor),
                                   get_frequencies("short_factor", rope.short_factor));
  return {by_pair, rope.attention_factor.value_or(scale)};
}

/// NTK-aware scaling: the base grows with the sequence length beyond the trained context.
inline Tensor dynamic_frequencies(const RopeParameters& rope, int64_t dim, int64_t max_position_embeddings,
                                  const Tensor& exponents, const Tensor& lengths) {
  const double factor = require_field(rope, "factor", rope.factor);
  const auto longest = static_cast<double>(max_position_embeddings);
  const Tensor growth = lengths.clamp_min(max_position_embeddings).to(at::kDouble) * (factor / longest) - (factor - 1);
  const Tensor base = growth.pow(static_cast<double>(dim) / static_cast<double>(dim - 2)) * rope.rope_theta;
  return 1.0 / at::pow(base.to(at::kFloat).unsqueeze(-1), exponents);
}

/// Llama 3.1: long wavelengths are interpolated, short ones are kept, and those in between are blended by wavelength.
inline Tensor llama3_frequencies(const RopeParameters& rope, int64_t max_position_embeddings,
                                 const Tensor& frequencies) {
  const double factor = require_field(rope, "factor", rope.factor);
  const double low = require_field(rope, "low_freq_factor", rope.low_freq_factor);
  const double high = require_field(rope, "high_freq_factor", rope.high_freq_factor);
  const double original = static_cast<double>(rope.original_max_position_embeddings.value_or(max_position_embeddings));
  const Tensor turns = original / (2 * std::numbers::pi / frequencies);
  const Tensor kept = ((turns - low) / (high - low)).clamp(0, 1);
  return (1 - kept) * frequencies / factor + kept * frequencies;
}

/// Whether frequencies depend on the sequence length.
inline bool depends_on_length(const RopeParameters& rope) {
  return rope.rope_type == "dynamic" || rope.rope_type == "longrope";
}

/// The length of each token's sequence without padding; in a row of several documents, the length of its document.
/// - positions [batch or 1, seq] int64
/// - returns [batch or 1, seq or 1] int64
inline Tensor sequence_lengths(const Batch& batch, const Tensor& positions) {
  Tensor ends = cp::whole(positions) + 1;
  const Tensor mask = cp::whole(batch.attention_mask);
  if (bound.cache) return ends.amax(-1, /*keepdim=*/true);  // with a cache, positions do not count padding
  if (mask.defined() && !batch.documents.defined() && !batch.position_ids.defined())
    return mask.ne(0).sum(-1, /*keepdim=*/true);
  if (mask.defined()) ends = ends.masked_fill(mask.eq(0), 0);
  if (!batch.documents.defined()) return ends.amax(-1, /*keepdim=*/true);
  const Tensor documents = cp::whole(batch.documents);
  const Tensor number = std::get<1>(at::_unique(documents, /*sorted=*/true, /*return_inverse=*/true));
  const Tensor row = at::arange(documents.size(0), documents.options()).unsqueeze(-1);
  const Tensor of_row = (number + row * documents.numel()).flatten();  // documents of different rows are distinct
  const Tensor key = std::get<1>(at::_unique(of_row, /*sorted=*/true, /*return_inverse=*/true));
  return cp::part(at::zeros_like(key)
                      .scatter_reduce(0, key, ends.expand_as(documents).flatten(), "amax")
                      .index_select(0, key)
                      .view_as(documents));
}

}  // namespace detail

/// Frequencies for sequences of `lengths` tokens. Throws ConfigError if `rope` lacks a field that its rope_type
/// requires.
/// - lengths [...] int64
inline RotaryFrequencies rotary_frequencies(const RopeParameters& rope, int64_t head_dim,
                                            int64_t max_position_embeddings, const Tensor& lengths) {
  const auto dim = static_cast<int64_t>(static_cast<double>(head_dim) * rope.partial_rotary_factor.value_or(1.0));
  const Tensor exponents = at::arange(0, dim, 2, lengths.options().dtype(at::kFloat)) / dim;
  const auto default_frequencies = [&](double base) -> Tensor { return 1.0 / at::pow(base, exponents); };
  const std::string& type = rope.rope_type;
  if (type == "default") return {default_frequencies(rope.rope_theta)};
  if (type == "linear")
    return {default_frequencies(rope.rope_theta) / detail::require_field(rope, "factor", rope.factor)};
  if (type == "dynamic") return {detail::dynamic_frequencies(rope, dim, max_position_embeddings, exponents, lengths)};
  if (type == "yarn")
    return detail::yarn_frequencies(rope, dim, max_position_embeddings, default_frequencies(rope.rope_theta));
  if (type == "longrope") return detail::longrope_frequencies(rope, dim, max_position_embeddings, exponents, lengths);
  if (type == "llama3")
    return {detail::llama3_frequencies(rope, max_position_embeddings, default_frequencies(rope.rope_theta))};
  throw ConfigError("rope_type is \"" + type + "\": write default, linear, dynamic, yarn, longrope or llama3");
}

/// The factor by which a model multiplies its attention scores if its RoPE options leave that to attention: DeepSeek's
/// variant of YaRN, which divides its tables by the same factor.
inline double rotary_attention_scale(const RopeParameters& rope) {
  const double weight = rope.mscale_all_dim.value_or(0.0);
  if (rope.rope_type == "default" || weight == 0.0) return 1.0;
  const double magnitude = detail::yarn_magnitude(detail::require_field(rope, "factor", rope.factor), weight);
  return magnitude * magnitude;
}

/// The tables with which rotary() rotates queries and keys of a batch at their position_ids(), computed in float32 and
/// returned in `type`. Throws ConfigError if `rope` lacks a field that its rope_type requires. Frequencies that depend
/// on the sequence length use the row's length without padding, or the document's, independent of the rest of the
/// batch: they do not depend on batching or on the mesh. A cache whose keys were rotated with other frequencies is
/// marked as unusable.
/// - returns [batch or 1, seq, rotated]: cosine and sine
inline RotaryTables rotary_tables(const RopeParameters& rope, int64_t head_dim, int64_t max_position_embeddings,
                                  const Batch& batch, at::ScalarType type) {
  const Tensor positions = position_ids(batch);
  const auto frequencies = [&](const Tensor& lengths) {
    return rotary_frequencies(rope, head_dim, max_position_embeddings, lengths);
  };
  const bool by_length = detail::depends_on_length(rope) && !positions.is_meta();  // meta tensors have no values
  const Tensor lengths = by_length ? detail::sequence_lengths(batch, positions) : at::ones({1, 1}, positions.options());
  const auto [by_pair, scale] = frequencies(lengths);
  if (by_length && cache::seen() > 0 && !at::equal(by_pair, frequencies(lengths - positions.size(-1)).by_pair))
    cache::spoil();
  const Tensor angles = positions.unsqueeze(-1).to(at::kFloat) * by_pair;
  const Tensor doubled = at::cat({angles, angles}, -1);
  return {(doubled.cos() * scale).to(type), (doubled.sin() * scale).to(type)};
}

}  // namespace modular
