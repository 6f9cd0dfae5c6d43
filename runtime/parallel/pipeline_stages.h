// Which elements of a model's list each pipeline stage runs.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/model/plan.h"
#include "runtime/model/pp.h"

namespace modular {

/// Which layers begin the stages but the first so that the costliest stage costs the least, then the second costliest,
/// and so on; of equals the one whose earlier stages are longer. There are at least as many layers, of these costs, as
/// stages.
std::vector<int64_t> balanced_cuts(const std::vector<int64_t>& costs, int64_t stages);

/// The sizes of the lists that `plan` cuts between stages, in the order in which they run: one, or those of two towers,
/// of which one that is a single piece counts 1. None where it cuts none.
std::vector<int64_t> stack_sizes(const nn::Module& root, const Plan& plan);

/// A stage's place in a model. Stages divide the layers of two towers as if they were one list, the first tower's
/// first.
class StageOnRank final : public pp::Stage {
 public:
  /// `cuts` are the layers that begin the stages but the first. `sizes` as stack_sizes() has them; of one list they may
  /// be left out.
  StageOnRank(int64_t stage, std::vector<int64_t> cuts, std::vector<int64_t> sizes = {})
      : stage_(stage), cuts_(std::move(cuts)), sizes_(std::move(sizes)) {}

  int64_t number() const { return stage_; }
  /// Whether it runs this layer, counted over both towers.
  bool holds(int64_t layer) const;
  /// First and one past the last of a tower's layers that the stage runs; equal where it runs none.
  std::pair<int64_t, int64_t> layers(size_t tower, int64_t list_size) const;
  /// Whether the stage runs the first, or the last, of a tower's layers.
  bool begins(size_t tower) const;
  bool ends(size_t tower) const;
  /// How many tensors cross the cut before it: what the layer before made and, after the second tower's first layer,
  /// what the first tower made.
  size_t receives() const;

  // While the model runs, of which nothing is received here.
  bool is_first() const override { return begins(stack_); }
  bool is_last() const override { return ends(stack_); }
  Tensor received() override { return {}; }
  bool first_stack() override;
  bool second_stack(const Tensor& between) override;
  std::pair<int64_t, int64_t> span(int64_t list_size) const override { return layers(stack_, list_size); }
  size_t tower() const { return stack_; }

 private:
  bool has_stacks() const { return sizes_.size() == 2; }
  bool is_final() const { return stage_ == static_cast<int64_t>(cuts_.size()); }
  /// First and one past the last that it runs of so many layers.
  std::pair<int64_t, int64_t> find_span(int64_t layers) const;

  int64_t stage_;
  std::vector<int64_t> cuts_;
  std::vector<int64_t> sizes_;
  size_t stack_ = 0;  // that is being run
};

}  // namespace modular
