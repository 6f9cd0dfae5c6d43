// The cache of generation: results of a forward over the tokens so far are kept for the forward over the next tokens,
// like transformers' `past_key_values`. The contract functions that read along the sequence (positions, masks and
// rotary tables; attention; convolutions and recurrences) use it, so model code does not mention it.
#pragma once

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <vector>

#include "runtime/model/parallel.h"
#include "runtime/model/tensors.h"

namespace modular::cache {

/// The state that one sequence, or a batch of sequences, leaves in a model's layers. A forward without gradients that
/// is bound to a cache continues after the tokens seen. Each call that keeps state is matched to its state by its index
/// among the caching calls of a forward. The cache holds what this rank computes: its heads, its stage.
///
/// Sequences of different lengths are left-padded. The padding counts among the tokens seen. A forward's
/// attention_mask, which is 0 at padding, covers the tokens seen and the new ones.
class Cache {
 public:
  /// Allocates room for `expected` tokens at once. Capacity doubles when more are needed.
  explicit Cache(int64_t expected = 0) : expected_(expected) {}

  /// The number of tokens of earlier forwards.
  int64_t seen() const { return seen_; }

  /// Begins a forward over the next tokens. `padding` [batch, seen + new] is 0 at padding; undefined if there is none.
  void begin(const Tensor& padding) { padding_ = padding; }

  /// The padding that begin() got for the current forward.
  const Tensor& padding() const { return padding_; }

  /// The tensor [batch, …] that this call of the forward keeps; undefined while no tokens have been seen. Each call has
  /// its own.
  Tensor& next() { return next_call().tensor; }

  /// Appends `added` [batch, heads, new, features] to the state of this call and returns it with the kept part: [batch,
  /// heads, kept + new, features]. If queries see at most `reach` positions back, only those are kept; otherwise all.
  Tensor append(const Tensor& added, std::optional<int64_t> reach = std::nullopt) {
    Call& call = next_call();
    Tensor& kept = call.tensor;
    const int64_t size = added.size(2), held = std::min(seen_, reach.value_or(seen_));
    const int64_t room = kept.defined() ? kept.size(2) : 0, needed = held + size;
    if (call.end + size > room) {
      auto shape = added.sizes().vec();
      shape[2] = std::max(2 * room, expected_);
      // With a limited reach, the kept keys move to the front only once per `reach` new tokens.
      if (reach) shape[2] = std::min(shape[2], 2 * *reach + 1);
      shape[2] = std::max(shape[2], needed);
      const Tensor moved = at::empty(shape, added.options());
      if (held > 0) moved.narrow(2, 0, held).copy_(kept.narrow(2, call.end - held, held));
      kept = moved;
      call.end = held;
    }
    kept.narrow(2, call.end, size).copy_(added);
    call.end += size;
    const Tensor all = kept.narrow(2, call.end - needed, needed);
    // A prompt longer than the reach frees the rest of its memory after its forward.
    if (reach && size > *reach + 1) {
      const int64_t left = std::min(*reach, needed);
      kept = all.narrow(2, needed - left, left).clone();
      call.end = left;
    }
    return all;
  }

  /// Continues with only the sequences at `rows` [new batch] int64, in this order.
  void keep_rows(const Tensor& rows) {
    for (Call& call : calls_)
      if (call.tensor.defined()) call.tensor = call.tensor.index_select(0, rows.to(call.tensor.device()));
  }

  /// Marks the cache as unusable: the current forward cannot continue from the kept state, or cannot keep what the next
  /// forward needs. If tokens were seen before, this forward's results are wrong.
  void spoil() { spoiled_ = true; }
  bool spoiled() const { return spoiled_; }

  /// Ends a forward over `size` tokens.
  void advance(int64_t size) {
    TORCH_CHECK(call_ == calls_.size(), "this forward keeps ", call_, " tensors, but the cache was created with ",
                calls_.size());
    call_ = 0;
    seen_ += size;
  }

 private:
  /// The state of one call of a forward.
  struct Call {
    Tensor tensor;
    int64_t end = 0;  // end of the part that append() has written
  };

  Call& next_call() {
    TORCH_INTERNAL_ASSERT(!at::GradMode::is_enabled(), "a cache needs forwards without gradients");
    if (seen_ == 0 && call_ == calls_.size()) calls_.emplace_back();
    TORCH_CHECK(call_ < calls_.size(),
                "this forward keeps more tensors than the cache was created with: ", calls_.size());
    return calls_[call_++];
  }

  int64_t expected_;
  int64_t seen_ = 0;
  Tensor padding_;
  size_t call_ = 0;         // index of the next call in the current forward
  std::deque<Call> calls_;  // a deque: references to elements stay valid while calls are added
  bool spoiled_ = false;
};

/// The number of tokens before the current forward's tokens.
inline int64_t seen() { return bound.cache ? bound.cache->seen() : 0; }

/// Called by functions whose positions see later tokens, or miss some of what the cache keeps.
inline void spoil() {
  if (bound.cache) bound.cache->spoil();
}

}  // namespace modular::cache
