// Visibility of keys in attention, described by what determines it: causal order, maximum distance, and for each key
// whether it is padding and which document it belongs to. A [seq, keys] tensor is built only for kernels that accept
// nothing else, and it is never kept.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <vector>

#include "runtime/model/cache.h"
#include "runtime/model/cp.h"
#include "runtime/model/tensors.h"

namespace modular {

/// The keys that each query sees; by default all of them. The queries are the last positions of the keys: cached keys
/// come before them. With context parallelism, the keys are those of all ranks. All heads share one mask.
struct AttentionMask {
  bool causal = false;           // a query sees itself and earlier keys only
  std::optional<int64_t> reach;  // maximum distance between a query and a key it sees
  Tensor padding;    // [batch, keys] bool, false for padding, which no query sees; includes keys that a cache dropped
  Tensor documents;  // [batch, keys] int64 document ids: a query sees only keys of its own document
  bool undivided = false;  // context-parallel ranks do not divide the sequence: each has all of its positions

  /// Calls `visit(Tensor&)` for each tensor of the mask.
  template <class Visitor>
  void tensors(Visitor&& visit) {
    visit(padding), visit(documents);
  }
};

// The plain ATen forms, which build mask tensors.
namespace plain {

/// Whether `mask` hides any of `keys` keys for a reason other than causality.
inline bool hides_earlier_keys(const AttentionMask& mask, int64_t keys) {
  return (mask.reach && *mask.reach < keys - 1) || mask.padding.defined() || mask.documents.defined();
}

/// Whether each of the last `seq` of `keys` positions sees all of them.
inline bool sees_all(const AttentionMask& mask, int64_t seq, int64_t keys) {
  return !(mask.causal && seq > 1) && !hides_earlier_keys(mask, keys);
}

/// The mask as a tensor over `seq` of `keys` positions: the last ones, or those that `after` more follow.
/// - returns [batch or 1, 1, seq, keys] bool
inline Tensor visible_keys(const AttentionMask& mask, int64_t seq, int64_t keys, const at::Device& device,
                           int64_t after = 0) {
  const int64_t before = keys - seq - after;
  Tensor visible = at::ones({1, 1, seq, keys}, at::TensorOptions().dtype(at::kBool).device(device));
  if (mask.causal) visible = visible.tril(before);
  if (mask.reach && *mask.reach < keys - 1) {
    visible = visible.triu(before - *mask.reach);
    if (!mask.causal) visible = visible.tril(before + *mask.reach);
  }
  if (mask.padding.defined()) {
    const Tensor of_keys =
        mask.padding.narrow(1, mask.padding.size(1) - keys, keys);  // a cache may have dropped older keys
    visible = visible.logical_and(of_keys.unsqueeze(1).unsqueeze(1));
  }
  if (mask.documents.defined()) {
    const Tensor of_keys = mask.documents.unsqueeze(1).unsqueeze(1);
    visible = visible.logical_and(of_keys.eq(of_keys.narrow(-1, before, seq).transpose(-2, -1)));
  }
  return visible;
}

}  // namespace plain

/// The mask as a tensor: true where one of the forward's `seq` queries sees a key.
/// - returns [batch or 1, 1, seq, keys] bool
inline Tensor visible_keys(const AttentionMask& mask, int64_t seq, const at::Device& device) {
  if (!bound.context || mask.undivided) return plain::visible_keys(mask, seq, cache::seen() + seq, device);
  const int64_t keys = cp::whole_size(seq);
  std::vector<Tensor> runs;
  for (const cp::Run& run : bound.context->runs(seq))
    runs.push_back(plain::visible_keys(mask, run.size, keys, device, keys - run.end()));
  return at::cat(runs, 2);
}

/// The positions of an encoder's output that cross-attention sees: all but padding.
/// - returns [batch, 1, 1, seq] bool
inline Tensor key_mask(const Batch& batch) {
  const Tensor visible =
      batch.attention_mask.defined() ? batch.attention_mask.to(at::kBool) : at::ones_like(batch.input_ids, at::kBool);
  return cp::whole(visible).unsqueeze(1).unsqueeze(1);
}

/// The distance from each query to each key of a stack that reads `ids`: the key's position minus the query's.
/// - ids [batch, seq] int64
/// - returns [seq, keys] int64
inline Tensor key_distances(const Tensor& ids) {
  const int64_t seq = ids.size(1);
  const Tensor queries = cp::positions(seq, ids.options()), keys = at::arange(cp::whole_size(seq), ids.options());
  return keys.unsqueeze(0) - queries.unsqueeze(1);
}

/// The mask of a decoder: a query sees itself and the positions before it. A `window` > 0 limits it to the last
/// `window` keys, itself included.
/// - padding [batch, seq] int64 or bool, 0 for padding, or undefined
inline AttentionMask causal_mask(const Tensor& padding, int64_t window) {
  AttentionMask mask;
  mask.causal = true;
  if (window > 0) mask.reach = window - 1;
  if (!padding.defined()) return mask;
  cache::spoil();
  mask.padding = cp::whole(padding.to(at::kBool));
  return mask;
}

namespace detail {
/// Adds the batch's documents to `mask`, so that attention stays within each document.
inline AttentionMask within_documents(AttentionMask mask, const Batch& batch) {
  if (!batch.documents.defined()) return mask;
  TORCH_CHECK(batch.documents.sizes() == batch.input_ids.sizes(), "documents of shape ", batch.documents.sizes(),
              " with input_ids of shape ", batch.input_ids.sizes(), ": give one document id per token");
  cache::spoil();
  mask.documents = cp::whole(batch.documents);
  return mask;
}
}  // namespace detail

/// causal_mask() for a batch, with its attention_mask and documents.
inline AttentionMask causal_mask(const Batch& batch, int64_t window) {
  AttentionMask mask = causal_mask(/*padding=*/Tensor(), window);
  if (const Tensor& padding = batch.attention_mask; padding.defined()) {
    if (padding.size(1) != cache::seen() + batch.input_ids.size(1)) cache::spoil();
    mask.padding = cp::whole(padding.to(at::kBool));
  }
  return detail::within_documents(std::move(mask), batch);
}

/// The mask of an encoder: a query sees all positions, before and after itself, that are neither padding nor part of
/// another document. A `reach` >= 0 is the maximum distance of a visible key.
inline AttentionMask bidirectional_mask(const Batch& batch, int64_t reach = -1) {
  cache::spoil();
  AttentionMask mask;
  if (reach >= 0) mask.reach = reach;
  if (batch.attention_mask.defined()) mask.padding = cp::whole(batch.attention_mask.to(at::kBool));
  return detail::within_documents(std::move(mask), batch);
}

/// The mask of a sequence that the model makes, such as the patches of an image: each position sees all positions.
/// Context-parallel ranks divide the positions of the batch only, so that each of them has all of this sequence.
inline AttentionMask whole_mask() {
  cache::spoil();
  AttentionMask mask;
  mask.undivided = true;
  return mask;
}

}  // namespace modular
