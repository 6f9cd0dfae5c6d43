// Assignment of a model's layers to pipeline stages.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/model/plan.h"
#include "runtime/model/pp.h"

namespace modular {

/// Returns the first layer of each stage but the first. The division minimizes the cost of the costliest stage, then of
/// the second costliest, and so on; among equal divisions, earlier stages are longer. Needs at least as many layers, of
/// these costs, as stages.
std::vector<int64_t> balanced_cuts(const std::vector<int64_t>& costs, int64_t stages);

/// Returns the sizes of the lists that `plan` cuts into stages, in the order in which they run: one list, or the lists
/// of two stacks, of which one that is not split counts as 1. Empty if the plan cuts none.
std::vector<int64_t> stack_sizes(const nn::Module& root, const Plan& plan);

/// Position of a stage in a model. Stages divide the layers of two stacks as if they were one list, with the first
/// stack's layers first.
class StageOnRank final : public pp::Stage {
 public:
  /// `cuts` are the first layers of the stages but the first. `sizes` are stack_sizes(); they may be omitted for one
  /// list.
  StageOnRank(int64_t stage, std::vector<int64_t> cuts, std::vector<int64_t> sizes = {})
      : stage_(stage), cuts_(std::move(cuts)), sizes_(std::move(sizes)) {}

  int64_t number() const { return stage_; }
  /// Whether the stage runs this layer, counted over both stacks.
  bool holds(int64_t layer) const;
  /// First and one past the last of a stack's layers that the stage runs; equal if it runs none.
  std::pair<int64_t, int64_t> layers(size_t stack, int64_t list_size) const;
  /// Whether the stage runs the first, or the last, of a stack's layers.
  bool begins(size_t stack) const;
  bool ends(size_t stack) const;
  /// Number of tensors that cross the cut before the stage: the output of the previous layer and, after the second
  /// stack's first layer, the output of the first stack.
  size_t receives() const;

  // pp::Stage for the running model. This class itself receives nothing; see Pipeline.
  bool is_first() const override { return begins(stack_); }
  bool is_last() const override { return ends(stack_); }
  Tensor received() override { return {}; }
  bool first_stack() override;
  bool second_stack(const Tensor& between) override;
  std::pair<int64_t, int64_t> span(int64_t list_size) const override { return layers(stack_, list_size); }
  size_t stack() const { return stack_; }

 private:
  bool has_stacks() const { return sizes_.size() == 2; }
  bool is_final() const { return stage_ == static_cast<int64_t>(cuts_.size()); }
  /// First and one past the last of `layers` layers that the stage runs.
  std::pair<int64_t, int64_t> find_span(int64_t layers) const;

  int64_t stage_;
  std::vector<int64_t> cuts_;
  std::vector<int64_t> sizes_;
  size_t stack_ = 0;  // index of the running stack
};

}  // namespace modular
