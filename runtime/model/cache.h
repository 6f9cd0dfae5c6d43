// Cached generation: what a forward computed of the tokens so far is kept for the forward of those after them, as
// transformers' `past_key_values` are. The functions of the contract that look along the sequence read it (positions,
// masks and rotary tables; attention; convolutions and recurrences), so that models say nothing of it.
#pragma once

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <deque>

#include "runtime/model/parallel.h"
#include "runtime/model/tensors.h"

namespace modular::cache {

/// What one sequence, or a batch of equally long ones, has left in a model's layers. A forward without gradients that
/// is bound to it goes on after the tokens seen; each call that keeps something finds it again by its
/// place among such calls of a forward. It holds what this rank computes: its heads, its stage.
class Cache {
 public:
  /// Room for `expected` tokens is made at once; for more, it is doubled when it is used up.
  explicit Cache(int64_t expected = 0) : expected_(expected) {}

  /// The tokens of the forwards before this one.
  int64_t seen() const { return seen_; }

  /// The tensor that this call of the forward keeps: undefined when nothing was seen. Each call has its own.
  Tensor& next() {
    TORCH_INTERNAL_ASSERT(!at::GradMode::is_enabled(), "a cache is for forwards without gradients");
    if (seen_ == 0 && call_ == kept_.size()) kept_.emplace_back();
    TORCH_CHECK(call_ < kept_.size(), "this forward keeps more than the one that began the cache: it holds ",
                kept_.size(), " tensors");
    return kept_[call_++];
  }

  /// Adds `added` [batch, heads, new, features] to what this call keeps, and returns that with what was seen before:
  /// [batch, heads, seen + new, features].
  Tensor append(const Tensor& added) {
    Tensor& kept = next();
    const int64_t size = added.size(2), needed = seen_ + size, room = kept.defined() ? kept.size(2) : 0;
    if (needed > room) {
      auto shape = added.sizes().vec();
      shape[2] = std::max({needed, 2 * room, expected_});
      const Tensor larger = at::empty(shape, added.options());
      if (seen_ > 0) larger.narrow(2, 0, seen_).copy_(kept.narrow(2, 0, seen_));
      kept = larger;
    }
    kept.narrow(2, seen_, size).copy_(added);
    return kept.narrow(2, 0, needed);
  }

  /// Says that the forward that runs cannot continue from what is kept, or keep what the next one needs: its results,
  /// if anything was seen, are wrong, and the cache is of no use.
  void spoil() { spoiled_ = true; }
  bool spoiled() const { return spoiled_; }

  /// Ends a forward over `size` tokens.
  void advance(int64_t size) {
    TORCH_CHECK(call_ == kept_.size(), "this forward keeps ", call_, " tensors, and the one that began the cache ",
                kept_.size());
    call_ = 0;
    seen_ += size;
  }

 private:
  int64_t expected_;
  int64_t seen_ = 0;
  size_t call_ = 0;          // of the forward that runs
  std::deque<Tensor> kept_;  // a call may hold its own while others are added
  bool spoiled_ = false;
};

/// The number of tokens before those of the forward that runs.
inline int64_t seen() { return bound.cache ? bound.cache->seen() : 0; }

/// For functions under which a position sees what comes after it, or not all that a cache keeps.
inline void spoil() {
  if (bound.cache) bound.cache->spoil();
}

}  // namespace modular::cache
