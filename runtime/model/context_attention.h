// Attention over the positions of all context-parallel ranks: by an exchange of heads, after which each rank has all
// positions of some heads (Jacobs et al., DeepSpeed Ulysses), or by gathering the keys and values (Llama Team, The
// Llama 3 herd of models).
#pragma once

#include <optional>
#include <type_traits>
#include <vector>

#include "runtime/model/attention_mask.h"
#include "runtime/model/cp.h"

namespace modular::detail {

/// Queries of one call of an attention kernel, and what dropout has to know of them.
struct Queries {
  Tensor query;                             // [batch, heads, seq, head_dim]
  int64_t first = 0;                        // position of the first one in the sequence
  int64_t head_slice = 0, head_slices = 1;  // the slice of this rank's heads
};

/// The mask over the first `keys` keys.
inline AttentionMask over_first_keys(AttentionMask mask, int64_t keys) {
  mask.tensors([&](Tensor& tensor) {
    if (tensor.defined()) tensor = tensor.narrow(1, 0, keys);
  });
  return mask;
}

/// What a kernel gives a query that sees no key: nothing, or the mean of all values.
enum class Unseeing { nothing, mean };

/// Attention of consecutive positions `run` to all keys. Kernels take a mask as a description if the queries are the
/// last of the keys or the mask does not depend on their positions, and as a tensor otherwise.
template <class Attend>
Tensor attend_run(Queries queries, const cp::Run& run, const Tensor& keys, const Tensor& values,
                  const AttentionMask& mask, Unseeing unseeing, const Attend& attend) {
  queries.first = run.begin;
  const int64_t all = keys.size(2);
  const auto seen = [&](const Tensor& x) { return x.narrow(2, 0, run.end()); };
  if (!mask.causal && !mask.reach && !mask.documents.defined()) return attend(queries, keys, values, mask);
  if (mask.causal && (unseeing == Unseeing::nothing || !mask.padding.defined()))
    return attend(queries, seen(keys), seen(values), over_first_keys(mask, run.end()));
  return attend(queries, keys, values, plain::visible_keys(mask, run.size, all, keys.device(), all - run.end()));
}

/// Calls `attend(queries, keys, values, mask)` such that the results are attention of this rank's queries to the keys
/// of all ranks. The tensors of an AttentionMask, and the last dimension of a mask that is a tensor, cover all keys.
/// - query [batch, heads, seq, head_dim]
/// - key, value [batch, key_value_heads, keys of this rank, head_dim]
/// - returns [batch, seq, heads * head_dim]
template <class Mask, class Attend>
Tensor over_context(const Tensor& query, const Tensor& key, const Tensor& value, const Mask& mask, Unseeing unseeing,
                    const Attend& attend) {
  constexpr bool is_tensor = std::is_same_v<Mask, Tensor>;
  if (!bound.context) return attend(Queries{query}, key, value, mask);
  if constexpr (!is_tensor)
    if (mask.undivided) return attend(Queries{query}, key, value, mask);
  cp::Context& context = *bound.context;
  if constexpr (!is_tensor)
    if (context.exchanges_heads(query.size(1), key.size(1)))
      return context.to_positions(attend(Queries{context.to_heads(query), 0, context.rank(), context.size()},
                                         context.to_heads(key), context.to_heads(value), mask));
  const Tensor keys = context.gather(key, 2), values = context.gather(value, 2);
  std::vector<Tensor> mixed;
  int64_t row = 0;
  for (const cp::Run& run : context.runs(query.size(2))) {
    const Queries queries{query.narrow(2, row, run.size), run.begin};
    if constexpr (is_tensor)
      mixed.push_back(attend(queries, keys, values, mask.size(2) == 1 ? mask : mask.narrow(2, row, run.size)));
    else
      mixed.push_back(attend_run(queries, run, keys, values, mask, unseeing, attend));
    row += run.size;
  }
  return at::cat(mixed, 1);
}

}  // namespace modular::detail
