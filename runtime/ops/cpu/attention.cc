#include <ATen/record_function.h>

#include <algorithm>
#include <unordered_map>

#include "runtime/ops/cpu/attention_kernel.h"
#include "runtime/ops/cpu/operations.h"
#include "runtime/ops/cpu/parallel.h"
#include "runtime/ops/cpu/tensors.h"
#include "runtime/ops/operations.h"

namespace modular::cpu {
namespace {

/// Row `row` of a tensor [batch or 1, seq]; null if it is undefined.
template <class T>
const T* get_row(const at::Tensor& tensor, size_t row) {
  if (!tensor.defined()) return nullptr;
  return read<T>(tensor) + (tensor.size(0) == 1 ? 0 : static_cast<int64_t>(row) * tensor.size(1));
}

/// Restricts `ranges`, of the last queries, to the span from the first to the last key of each query's document.
/// Returns whether documents are contiguous, so that ranges suffice.
bool narrow_to_documents(const int64_t* documents, int64_t keys, std::vector<KeyRange>& ranges) {
  std::unordered_map<int64_t, KeyRange> extents;
  size_t runs = 0;
  for (int64_t i = 0; i < keys; ++i) {
    runs += i == 0 || documents[i] != documents[i - 1];
    extents.try_emplace(documents[i], KeyRange{i, i}).first->second.last = i + 1;
  }
  const int64_t* of_query = documents + keys - static_cast<int64_t>(ranges.size());
  for (KeyRange& range : ranges) {
    const KeyRange& own = extents.at(*of_query++);
    range = {std::max(range.first, own.first), std::min(range.last, own.last)};
  }
  return runs == extents.size();
}

/// Trims padding from both ends of each range. Returns whether no padding is left inside a range.
bool narrow_to_present(const bool* present, int64_t keys, std::vector<KeyRange>& ranges) {
  const auto all = static_cast<size_t>(keys);
  std::vector<int64_t> next(all + 1, keys), last(all + 1, 0), count(all + 1, 0);
  for (size_t i = all; i-- > 0;) next[i] = present[i] ? static_cast<int64_t>(i) : next[i + 1];
  for (size_t i = 0; i < all; ++i) {
    last[i + 1] = present[i] ? static_cast<int64_t>(i) + 1 : last[i];
    count[i + 1] = count[i] + (present[i] ? 1 : 0);
  }
  bool is_all = true;
  for (KeyRange& range : ranges) {
    range = {next[static_cast<size_t>(range.first)], last[static_cast<size_t>(range.last)]};
    if (range.first < range.last)
      is_all &=
          count[static_cast<size_t>(range.last)] - count[static_cast<size_t>(range.first)] == range.last - range.first;
  }
  return is_all;
}

}  // namespace

VisibleKeys::VisibleKeys(const AttentionMask& mask, int64_t seq, int64_t keys)
    : padding_(mask.padding.defined() ? mask.padding.contiguous() : at::Tensor()),
      documents_(mask.documents.defined() ? mask.documents.contiguous() : at::Tensor()) {
  std::vector<KeyRange> ranges;
  // The queries are the last positions of the keys.
  const int64_t all = std::max(seq, keys), reach = std::min(mask.reach.value_or(all), all);
  for (int64_t i = keys - seq; i < keys; ++i)
    ranges.push_back({std::max<int64_t>(i - reach, 0), std::min(mask.causal ? i + 1 : i + reach + 1, keys)});
  for (const at::Tensor& each : {padding_, documents_})
    rows_.resize(std::max(rows_.size(), each.defined() ? static_cast<size_t>(each.size(0)) : 1));
  for (size_t i = 0; i < rows_.size(); ++i) {
    Row& row = rows_[i] = {ranges, get_row<bool>(padding_, i), get_row<int64_t>(documents_, i)};
    if (row.documents && narrow_to_documents(row.documents, keys, row.ranges)) row.documents = nullptr;
    if (row.present && narrow_to_present(row.present, keys, row.ranges)) row.present = nullptr;
    for (KeyRange& range : row.ranges)
      if (range.first >= range.last) range = {0, 0};
  }
}

void VisibleKeys::set(AttentionShape& shape, int64_t row) const {
  const Row& own = rows_[rows_.size() == 1 ? 0 : static_cast<size_t>(row)];
  shape.visible = own.ranges.data();
  shape.present = own.present;
  shape.documents = own.documents;
}

}  // namespace modular::cpu

namespace modular {

// CPU attention. A unit of work is one key/value head of a sequence; the loops are in attention_kernel.cc.

namespace {

using at::Tensor;
using cpu::read, cpu::with_element_type, cpu::write;

Tensor with_contiguous_vectors(const Tensor& x) { return x.stride(-1) == 1 ? x : x.contiguous(); }

/// Arguments of forward and backward in the layout that the kernels read.
struct Arguments {
  Tensor query, key, value, biases;  // biases [batch or 1, heads, seq, keys], possibly expanded over heads
  int64_t batch, heads, seq, dim, kv_heads, keys;
  cpu::VisibleKeys visible;
  double scale;
  const DropoutRng* rng;

  Arguments(const Tensor& query_given, const Tensor& key_given, const Tensor& value_given, const AttentionMask& mask,
            const Tensor& biases_given, double scale, const DropoutRng* rng)
      : query(with_contiguous_vectors(query_given)),
        key(with_contiguous_vectors(key_given)),
        value(with_contiguous_vectors(value_given)),
        batch(query.size(0)),
        heads(query.size(1)),
        seq(query.size(2)),
        dim(query.size(3)),
        kv_heads(key.size(1)),
        keys(key.size(2)),
        visible(mask, seq, keys),
        scale(scale),
        rng(rng) {
    if (biases_given.defined())
      biases = with_contiguous_vectors(biases_given).expand({biases_given.size(0), heads, seq, keys});
  }

  int64_t group() const { return heads / kv_heads; }

  cpu::AttentionShape shape() const {
    return {.seq = seq,
            .keys = keys,
            .dim = dim,
            .group = group(),
            .scale = static_cast<float>(scale),
            .visible = nullptr,
            .present = nullptr,
            .documents = nullptr,
            .query = {query.stride(1), query.stride(2)},
            .output = {dim, heads * dim},
            .key_row = key.stride(2),
            .value_row = value.stride(2),
            .biases = nullptr,
            .bias = biases.defined() ? cpu::Strides{biases.stride(1), biases.stride(2)} : cpu::Strides{},
            .drop = nullptr};
  }

  /// Calls apply(shape) with `shape` completed for a key/value head and the query heads that share it.
  template <class Apply>
  void apply_to(cpu::AttentionShape& shape, int64_t sequence, int64_t kv_head, Apply&& apply) const {
    const int64_t head = kv_head * group();
    visible.set(shape, sequence);
    if (biases.defined())
      shape.biases =
          read<float>(biases) + (biases.size(0) == 1 ? 0 : sequence) * biases.stride(0) + head * shape.bias.head;
    const cpu::Drop drop = rng ? cpu::to_drop(*rng, sequence, rng->part * heads + head, 0) : cpu::Drop();
    if (rng) shape.drop = &drop;
    apply(shape);
  }
};

/// The vectors of one head of a sequence; x is [batch, heads, positions, dim].
template <class T>
const T* get_head(const Tensor& x, int64_t sequence, int64_t head) {
  return read<T>(x) + sequence * x.stride(0) + head * x.stride(1);
}
template <class T>
T* get_mutable_head(const Tensor& x, int64_t sequence, int64_t head) {
  return write<T>(x) + sequence * x.stride(0) + head * x.stride(1);
}

}  // namespace

std::pair<Tensor, Tensor> cpu_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                        const AttentionMask& mask, const Tensor& biases, double scale,
                                        const DropoutRng* rng) {
  const Arguments given(query, key, value, mask, biases, scale, rng);
  const int64_t heads = given.heads, seq = given.seq, kv_heads = given.kv_heads;
  const Tensor output = at::empty({given.batch, seq, heads, given.dim}, query.options());
  const Tensor by_head = output.transpose(1, 2);
  const Tensor normalizer = at::empty({given.batch, heads, seq}, query.options().dtype(at::kFloat));
  with_element_type(query, [&](auto element) {
    using T = decltype(element);
    cpu::parallel_ranges(given.batch * kv_heads, 1, [&](int64_t first, int64_t last) {
      cpu::AttentionShape shape = given.shape();
      const Tensor scratch = at::empty({cpu::forward_scratch(shape)}, at::kFloat);
      for (int64_t piece = first; piece < last; ++piece) {
        const int64_t sequence = piece / kv_heads, kv_head = piece % kv_heads, head = kv_head * given.group();
        given.apply_to(shape, sequence, kv_head, [&](const cpu::AttentionShape& own) {
          cpu::attention_kernels<T>().forward(
              own, get_head<T>(given.query, sequence, head), get_head<T>(given.key, sequence, kv_head),
              get_head<T>(given.value, sequence, kv_head), get_mutable_head<T>(by_head, sequence, head),
              get_mutable_head<float>(normalizer, sequence, head), write<float>(scratch));
        });
      }
    });
  });
  return {output.flatten(2), normalizer};
}

std::array<Tensor, 4> cpu_attention_backward(const Tensor& grad, const Tensor& query, const Tensor& key,
                                             const Tensor& value, const AttentionMask& mask, const Tensor& biases,
                                             bool needs_biases, double scale, const DropoutRng* rng,
                                             const Tensor& output, const Tensor& normalizer) {
  const Arguments given(query, key, value, mask, biases, scale, rng);
  const int64_t batch = given.batch, heads = given.heads, kv_heads = given.kv_heads, dim = given.dim;
  // In the memory layout of the projections, so that their backward copies nothing.
  const auto get_gradient = [&](const Tensor& x) {
    return at::empty({batch, x.size(2), x.size(1), dim}, x.options()).transpose(1, 2);
  };
  const auto by_heads = [&](const Tensor& x) { return x.view({batch, given.seq, heads, dim}).transpose(1, 2); };
  const Tensor dquery = get_gradient(query), dkey = get_gradient(key), dvalue = get_gradient(value);
  const Tensor upstream = by_heads(grad.contiguous()), mixed = by_heads(output);
  const Tensor dbiases =
      needs_biases ? at::zeros({biases.size(0), heads, given.seq, given.keys}, biases.options()) : Tensor();
  // Biases that all sequences share accumulate their gradients, one sequence after the other.
  const int64_t at_once = needs_biases && biases.size(0) == 1 ? batch : 1;
  with_element_type(query, [&](auto element) {
    using T = decltype(element);
    cpu::parallel_ranges(batch / at_once * kv_heads, 1, [&](int64_t first, int64_t last) {
      cpu::AttentionShape shape = given.shape();
      const Tensor scratch = at::empty({cpu::backward_scratch(shape)}, at::kFloat);
      for (int64_t piece = first * at_once; piece < last * at_once; ++piece) {
        const int64_t unit = piece / at_once, kv_head = unit % kv_heads, head = kv_head * given.group();
        const int64_t sequence = unit / kv_heads + piece % at_once;
        given.apply_to(shape, sequence, kv_head, [&](const cpu::AttentionShape& own) {
          float* to_biases =
              needs_biases ? get_mutable_head<float>(dbiases, at_once > 1 ? 0 : sequence, head) : nullptr;
          cpu::attention_kernels<T>().backward(
              own, get_head<T>(given.query, sequence, head), get_head<T>(given.key, sequence, kv_head),
              get_head<T>(given.value, sequence, kv_head), get_head<T>(mixed, sequence, head),
              get_head<T>(upstream, sequence, head), get_head<float>(normalizer, sequence, head),
              get_mutable_head<T>(dquery, sequence, head), get_mutable_head<T>(dkey, sequence, kv_head),
              get_mutable_head<T>(dvalue, sequence, kv_head), dkey.stride(2), to_biases, write<float>(scratch));
        });
      }
    });
  });
  return {dquery, dkey, dvalue, needs_biases ? at::sum_to(dbiases, biases.sizes()) : Tensor()};
}

}  // namespace modular

namespace modular::cpu {
namespace {

/// With more queries, a library's GEMM is faster.
constexpr int64_t kMostQueries = 4;
/// Minimum number of scores per thread.
constexpr int64_t kScoresPerThread = 2048;

bool suits(const Tensor& query, const Tensor& keys, const Tensor& values, const AttentionMask& mask) {
  const auto matches = [&](const Tensor& other) {
    return other.is_cpu() && other.dim() == 4 && other.scalar_type() == query.scalar_type() && other.stride(3) == 1 &&
           other.size(0) == query.size(0);
  };
  return !at::GradMode::is_enabled() && query.is_cpu() && query.dim() == 4 && query.numel() > 0 &&
         (query.scalar_type() == at::kFloat || query.scalar_type() == at::kBFloat16) && query.stride(3) == 1 &&
         query.size(2) <= kMostQueries && query.size(2) < keys.size(2) && matches(keys) && matches(values) &&
         keys.size(1) == values.size(1) && keys.size(2) == values.size(2) && keys.size(3) == query.size(3) &&
         query.size(1) % keys.size(1) == 0 && !mask.documents.defined();
}

}  // namespace

Tensor cached_attention(const Tensor& query, const Tensor& keys, const Tensor& values, const AttentionMask& mask,
                        double scale, std::optional<double> softcap) {
  if (!suits(query, keys, values, mask)) return {};
  RECORD_USER_SCOPE("modular::CachedAttention");
  const int64_t batch = query.size(0), heads = query.size(1), kv_heads = keys.size(1), group = heads / kv_heads;
  CachedAttentionShape shape = {.seq = query.size(2),
                                .keys = keys.size(2),
                                .dim = query.size(3),
                                .value_dim = values.size(3),
                                .group = group,
                                .scale = static_cast<float>(scale),
                                .softcap = static_cast<float>(softcap.value_or(0.0)),
                                .causal = mask.causal,
                                .reach = std::min(mask.reach.value_or(keys.size(2)), keys.size(2)),
                                .present = nullptr,
                                .query = {query.stride(1), query.stride(2)},
                                .output = {values.size(3), heads * values.size(3)},
                                .key_row = keys.stride(2),
                                .value_row = values.stride(2)};
  const Tensor present = mask.padding.defined()
                             ? mask.padding.narrow(1, mask.padding.size(1) - shape.keys, shape.keys).contiguous()
                             : Tensor();
  const Tensor output = at::empty({batch, shape.seq, heads * shape.value_dim}, query.options());
  with_element_type(query, [&](auto element) {
    using T = decltype(element);
    const int64_t grain = std::max<int64_t>(1, kScoresPerThread / (group * shape.seq * shape.keys));
    parallel_ranges(batch * kv_heads, grain, [&](int64_t first, int64_t last) {
      const Tensor scratch = at::empty({cached_attention_scratch(shape)}, at::kFloat);
      CachedAttentionShape own = shape;
      for (int64_t piece = first; piece < last; ++piece) {
        const int64_t row = piece / kv_heads, head = piece % kv_heads;
        if (present.defined()) own.present = read<bool>(present) + (present.size(0) == 1 ? 0 : row) * shape.keys;
        cached_attention_kernel<T>()(own, read<T>(query) + row * query.stride(0) + head * group * query.stride(1),
                                     read<T>(keys) + row * keys.stride(0) + head * keys.stride(1),
                                     read<T>(values) + row * values.stride(0) + head * values.stride(1),
                                     write<T>(output) + row * output.stride(0) + head * group * shape.value_dim,
                                     write<float>(scratch));
      }
    });
  });
  return output;
}

}  // namespace modular::cpu
