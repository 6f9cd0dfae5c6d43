// Pipeline parallelism (Narayanan et al., PipeDream-Flush / 1F1B). modgen weaves stage regions into the models; without
// a pipeline there is one stage that is the first and the last.
#pragma once

#include <ranges>
#include <utility>

#include "runtime/model/module.h"
#include "runtime/model/parallel.h"

namespace modular::pp {

/// What a model is bound to on a mesh whose `pp` axis is larger than 1.
class Stage {
 public:
  virtual ~Stage() = default;
  // Of a model of two towers, these are of the one that is being run.
  virtual bool is_first() const = 0;
  virtual bool is_last() const = 0;
  /// The value that the stage before sent for the micro-batch that is being run.
  virtual Tensor received() = 0;
  /// Begins the first of two towers: whether this stage runs some of it.
  virtual bool first_stack() { return true; }
  /// Goes on to the second, for whose stages `between` is what the first one made: whether this stage runs some of it.
  virtual bool second_stack(const Tensor& /*between*/) { return true; }
  /// First and one past the last index of the split list's elements that this stage runs.
  virtual std::pair<int64_t, int64_t> span(int64_t list_size) const = 0;
};

/// Whether this stage runs what is PP_FIRST.
inline bool is_first() { return !bound.stage || bound.stage->is_first(); }
/// Whether this stage runs what is PP_LAST.
inline bool is_last() { return !bound.stage || bound.stage->is_last(); }
/// What the stage before sent; only in a stage that is not the first.
inline Tensor received() { return bound.stage->received(); }
/// Of two towers that stages are cut within and between: whether this stage runs some of the first.
inline bool first_stack() { return !bound.stage || bound.stage->first_stack(); }
/// Whether this stage runs some of the second tower, which reads what the first one made. is_first() and is_last() are
/// the second tower's from here on, and `between` goes along to all stages that run it.
inline bool second_stack(const Tensor& between) { return !bound.stage || bound.stage->second_stack(between); }

/// The elements of a list, split between stages, that this stage runs, in order.
template <class List>
auto local(List& list) {
  const auto size = static_cast<int64_t>(list->size());
  const auto [first, last] = bound.stage ? bound.stage->span(size) : std::pair<int64_t, int64_t>{0, size};
  return std::ranges::subrange(list->begin() + first, list->begin() + last);
}

/// What an entry returns from a stage that is not the last.
inline Outputs pass_on(const Tensor& carried) {
  return {.logits = {}, .loss_sum = {}, .token_count = {}, .carried = carried};
}

}  // namespace modular::pp
