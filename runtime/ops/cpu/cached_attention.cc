#include "runtime/ops/cpu/cached_attention.h"

#include <ATen/record_function.h>

#include <algorithm>

#include "runtime/ops/cpu/cached_attention_kernel.h"
#include "runtime/ops/cpu/parallel.h"
#include "runtime/ops/cpu/tensors.h"

namespace modular::cpu {
namespace {

using at::Tensor;

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
