// Pipeline parallelism (Narayanan et al., PipeDream-Flush / 1F1B). modgen weaves stage regions into the models. Without
// a pipeline, a single stage is both first and last.
#pragma once

#include <ranges>
#include <utility>

#include "runtime/model/module.h"
#include "runtime/model/parallel.h"

namespace modular::pp {

/// Runtime interface of a model on a mesh whose `pp` axis is larger than 1.
class Stage {
 public:
  virtual ~Stage() = default;
  // In a model with two stacks, these refer to the stack that is running.
  virtual bool is_first() const = 0;
  virtual bool is_last() const = 0;
  /// The value that the previous stage sent for the current micro-batch.
  virtual Tensor received() = 0;
  /// Enters the first of two stacks. Returns whether this stage runs some of it.
  virtual bool first_stack() { return true; }
  /// Enters the second stack, whose stages read `between`, the first stack's output. Returns whether this stage runs
  /// some of it.
  virtual bool second_stack(const Tensor& /*between*/) { return true; }
  /// The first index and the end index of the split list's elements that this stage runs.
  virtual std::pair<int64_t, int64_t> span(int64_t list_size) const = 0;
};

/// Whether this stage runs PP_FIRST code.
inline bool is_first() { return !bound.stage || bound.stage->is_first(); }
/// Whether this stage runs PP_LAST code.
inline bool is_last() { return !bound.stage || bound.stage->is_last(); }
/// The value that the previous stage sent. Must not be called in the first stage.
inline Tensor received() { return bound.stage->received(); }
/// Whether this stage runs some of the first stack, in a model whose two stacks are split over stages.
inline bool first_stack() { return !bound.stage || bound.stage->first_stack(); }
/// Whether this stage runs some of the second stack, which reads the first stack's output. From here on, is_first() and
/// is_last() refer to the second stack, and `between` is passed along to all stages that run it.
inline bool second_stack(const Tensor& between) { return !bound.stage || bound.stage->second_stack(between); }

/// Returns, in order, the elements of a pipeline-split list that this stage runs.
template <class List>
auto local(List& list) {
  const auto size = static_cast<int64_t>(list->size());
  const auto [first, last] = bound.stage ? bound.stage->span(size) : std::pair<int64_t, int64_t>{0, size};
  return std::ranges::subrange(list->begin() + first, list->begin() + last);
}

/// The outputs of an entry in a stage that is not the last.
inline Outputs pass_on(const Tensor& carried) {
  return {.logits = {}, .loss_sum = {}, .token_count = {}, .carried = carried};
}

}  // namespace modular::pp
