// Which keys each query of attention sees, as what decides it: their order, how far away they may stand, and of each
// key whether it is padding and which document it is of. A tensor with an element for each query and key is made of it
// where a kernel takes nothing else, and nowhere kept.
#pragma once

#include <ATen/ATen.h>

#include <optional>

#include "runtime/model/cache.h"
#include "runtime/model/tensors.h"

namespace modular {

/// Which keys each query sees; all, where nothing is said. The queries are the last of the keys: those that a cache has
/// kept stand before theirs. All heads see the same.
struct AttentionMask {
  bool causal = false;           // a query sees itself and the keys before it, none after it
  std::optional<int64_t> reach;  // how far away from its query a key may stand
  Tensor padding;                // [batch, keys] bool, false for padding, which no query sees; dropped keys come first
  Tensor documents;              // [batch, keys] int64: a query sees the keys of its own document

  /// Calls `visit(Tensor&)` for each.
  template <class Visitor>
  void tensors(Visitor&& visit) {
    visit(padding), visit(documents);
  }
};

// The plain ATen forms, which take masks as tensors.
namespace plain {

/// Whether `mask` hides some of `keys` keys for another reason than that they come after their query.
inline bool hides_earlier_keys(const AttentionMask& mask, int64_t keys) {
  return (mask.reach && *mask.reach < keys - 1) || mask.padding.defined() || mask.documents.defined();
}

/// Whether each of the last `seq` of `keys` positions sees all of them.
inline bool sees_all(const AttentionMask& mask, int64_t seq, int64_t keys) {
  return !(mask.causal && seq > 1) && !hides_earlier_keys(mask, keys);
}

/// The mask as a tensor over the last `seq` of `keys` positions.
/// - returns [batch or 1, 1, seq, keys] bool
inline Tensor visible_keys(const AttentionMask& mask, int64_t seq, int64_t keys, const at::Device& device) {
  const int64_t before = keys - seq;
  Tensor visible = at::ones({1, 1, seq, keys}, at::TensorOptions().dtype(at::kBool).device(device));
  if (mask.causal) visible = visible.tril(before);
  if (mask.reach && *mask.reach < keys - 1) {
    visible = visible.triu(before - *mask.reach);
    if (!mask.causal) visible = visible.tril(before + *mask.reach);
  }
  if (mask.padding.defined()) {
    const Tensor of_keys = mask.padding.narrow(1, mask.padding.size(1) - keys, keys);  // a cache may have dropped older
    visible = visible.logical_and(of_keys.unsqueeze(1).unsqueeze(1));
  }
  if (mask.documents.defined()) {
    const Tensor of_keys = mask.documents.unsqueeze(1).unsqueeze(1);
    visible = visible.logical_and(of_keys.eq(of_keys.narrow(-1, before, seq).transpose(-2, -1)));
  }
  return visible;
}

}  // namespace plain

/// The mask as a tensor, for what is computed from it: true where one of the forward's `seq` queries sees a key.
/// - returns [batch or 1, 1, seq, keys] bool
inline Tensor visible_keys(const AttentionMask& mask, int64_t seq, const at::Device& device) {
  return plain::visible_keys(mask, seq, cache::seen() + seq, device);
}

/// Which keys a query of a decoder sees: those before it and itself. A `window` > 0 lets it see that many keys, itself
/// included.
/// - padding [batch, seq] int64 or bool, 0 for padding, or undefined
inline AttentionMask causal_mask(const Tensor& padding, int64_t window) {
  AttentionMask mask;
  mask.causal = true;
  if (window > 0) mask.reach = window - 1;
  if (!padding.defined()) return mask;
  cache::spoil();
  mask.padding = padding.to(at::kBool);
  return mask;
}

namespace detail {
/// `mask`, under which a batch's documents are kept apart.
inline AttentionMask within_documents(AttentionMask mask, const Batch& batch) {
  if (!batch.documents.defined()) return mask;
  TORCH_CHECK(batch.documents.sizes() == batch.input_ids.sizes(), "documents of shape ", batch.documents.sizes(),
              " beside input_ids of shape ", batch.input_ids.sizes(), ": give each token's document");
  cache::spoil();
  mask.documents = batch.documents;
  return mask;
}
}  // namespace detail

/// The same for a batch, by its attention_mask and its documents.
inline AttentionMask causal_mask(const Batch& batch, int64_t window) {
  AttentionMask mask = causal_mask(/*padding=*/Tensor(), window);
  if (const Tensor& padding = batch.attention_mask; padding.defined()) {
    if (padding.size(1) != cache::seen() + batch.input_ids.size(1)) cache::spoil();
    mask.padding = padding.to(at::kBool);
  }
  return detail::within_documents(std::move(mask), batch);
}

/// Which keys a query of an encoder sees: all that are neither padding nor of another document, before and after
/// itself. A `reach` >= 0 is how far away a key may stand.
inline AttentionMask bidirectional_mask(const Batch& batch, int64_t reach = -1) {
  cache::spoil();
  AttentionMask mask;
  if (reach >= 0) mask.reach = reach;
  if (batch.attention_mask.defined()) mask.padding = batch.attention_mask.to(at::kBool);
  return detail::within_documents(std::move(mask), batch);
}

/// The same where there is no padding: each place sees all.
inline AttentionMask whole_mask() {
  cache::spoil();
  return {};
}

}  // namespace modular
