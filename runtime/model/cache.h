// Cached generation: what a forward computed of the tokens so far is kept for the forward of those after them, as
// transformers' `past_key_values` are. The functions of the contract that look along the sequence read it (positions,
// masks and rotary tables; attention; convolutions and recurrences), so that models say nothing of it.
#pragma once

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <vector>

#include "runtime/model/parallel.h"
#include "runtime/model/tensors.h"

namespace modular::cache {

/// What one sequence, or a batch of them, has left in a model's layers. A forward without gradients that
/// is bound to it continues after the tokens seen; each call that keeps something finds it again by its
/// place among such calls of a forward. It holds what this rank computes: its heads, its stage.
///
/// Sequences of several lengths are padded before their first token. That counts among the tokens seen, and a forward's
/// attention_mask, which has it as zeros, is of the tokens seen and its own.
class Cache {
 public:
  /// Room for `expected` tokens is made at once; for more, it is doubled when it is used up.
  explicit Cache(int64_t expected = 0) : expected_(expected) {}

  /// The tokens of the forwards before this one.
  int64_t seen() const { return seen_; }

  /// Begins a forward over the tokens that follow, of which `padding` [batch, seen + new] has zeros for padding;
  /// undefined for none.
  void begin(const Tensor& padding) { padding_ = padding; }

  /// What the forward that runs was begun with.
  const Tensor& padding() const { return padding_; }

  /// The tensor that this call of the forward keeps, [batch, …]: undefined when nothing was seen. Each call has its
  /// own.
  Tensor& next() { return next_call().tensor; }

  /// Adds `added` [batch, heads, new, features] to what this call keeps, and returns that with what was kept before:
  /// [batch, heads, kept + new, features]. Of a call whose queries see at most `reach` positions back, no more than
  /// these are kept; of others all that were seen.
  Tensor append(const Tensor& added, std::optional<int64_t> reach = std::nullopt) {
    Call& call = next_call();
    Tensor& kept = call.tensor;
    const int64_t size = added.size(2), held = std::min(seen_, reach.value_or(seen_));
    const int64_t room = kept.defined() ? kept.size(2) : 0, needed = held + size;
    if (call.end + size > room) {
      auto shape = added.sizes().vec();
      shape[2] = std::max(2 * room, expected_);
      // Where old keys are dropped, the others move to the front once in as many steps as there are of them.
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
    // A prompt that is longer than what it leaves behind takes no memory after its forward.
    if (reach && size > *reach + 1) {
      const int64_t left = std::min(*reach, needed);
      kept = all.narrow(2, needed - left, left).clone();
      call.end = left;
    }
    return all;
  }

  /// Goes on with the sequences at `rows` [new batch] int64 alone, in this order.
  void keep_rows(const Tensor& rows) {
    for (Call& call : calls_)
      if (call.tensor.defined()) call.tensor = call.tensor.index_select(0, rows.to(call.tensor.device()));
  }

  /// Says that the forward that runs cannot continue from what is kept, or keep what the next one needs: its results,
  /// if anything was seen, are wrong, and the cache is of no use.
  void spoil() { spoiled_ = true; }
  bool spoiled() const { return spoiled_; }

  /// Ends a forward over `size` tokens.
  void advance(int64_t size) {
    TORCH_CHECK(call_ == calls_.size(), "this forward keeps ", call_, " tensors, and the one that began the cache ",
                calls_.size());
    call_ = 0;
    seen_ += size;
  }

 private:
  /// What one call of a forward keeps.
  struct Call {
    Tensor tensor;
    int64_t end = 0;  // of what append() has written of it
  };

  Call& next_call() {
    TORCH_INTERNAL_ASSERT(!at::GradMode::is_enabled(), "a cache is for forwards without gradients");
    if (seen_ == 0 && call_ == calls_.size()) calls_.emplace_back();
    TORCH_CHECK(call_ < calls_.size(), "this forward keeps more than the one that began the cache: it holds ",
                calls_.size(), " tensors");
    return calls_[call_++];
  }

  int64_t expected_;
  int64_t seen_ = 0;
  Tensor padding_;
  size_t call_ = 0;         // of the forward that runs
  std::deque<Call> calls_;  // a call may hold its own tensor while others are added
  bool spoiled_ = false;
};

/// The number of tokens before those of the forward that runs.
inline int64_t seen() { return bound.cache ? bound.cache->seen() : 0; }

/// For functions under which a position sees what comes after it, or not all that a cache keeps.
inline void spoil() {
  if (bound.cache) bound.cache->spoil();
}

}  // namespace modular::cache
