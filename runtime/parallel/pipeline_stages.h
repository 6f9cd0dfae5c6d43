// Which elements of a model's list each pipeline stage runs.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/model/plan.h"
#include "runtime/model/pp.h"

namespace modular {

/// First and one past the last of `layers` that `stage` runs. `cuts` says which of them begins each stage but the
/// first; without, they are divided as evenly as can be, the longer shares on earlier stages, as the last one also
/// computes the logits.
std::pair<int64_t, int64_t> stage_span(int64_t layers, int64_t stage, int64_t stages,
                                       const std::vector<int64_t>& cuts = {});

/// The sizes of the lists that `plan` cuts between stages, in the order in which they run: one, or those of two towers,
/// of which one that is a single piece counts 1. None where it cuts none.
std::vector<int64_t> tower_sizes(const nn::Module& root, const Plan& plan);

/// A stage's place in a model. Stages divide the layers of two towers as if they were one list, the first tower's
/// first.
class PlacedStage final : public pp::Stage {
 public:
  /// `sizes` as tower_sizes() has them; of one list they may be left out.
  PlacedStage(int64_t stage, int64_t stages, std::vector<int64_t> cuts, std::vector<int64_t> sizes = {})
      : stage_(stage), stages_(stages), cuts_(std::move(cuts)), sizes_(std::move(sizes)) {}

  int64_t number() const { return stage_; }
  /// First and one past the last of a tower's layers that the stage runs; equal where it runs none.
  std::pair<int64_t, int64_t> layers(size_t tower, int64_t list_size) const;
  /// Whether the stage runs the first, or the last, of a tower's layers.
  bool begins(size_t tower) const;
  bool ends(size_t tower) const;
  /// How many tensors cross the cut before it: what the layer before made and, after the second tower's first layer,
  /// what the first tower made.
  size_t receives() const;

  // While the model runs, of which nothing is received here.
  bool is_first() const override { return begins(tower_); }
  bool is_last() const override { return ends(tower_); }
  Tensor received() override { return {}; }
  bool first_tower() override;
  bool second_tower(const Tensor& between) override;
  std::pair<int64_t, int64_t> span(int64_t list_size) const override { return layers(tower_, list_size); }
  size_t tower() const { return tower_; }

 private:
  bool has_towers() const { return sizes_.size() == 2; }

  int64_t stage_;
  int64_t stages_;
  std::vector<int64_t> cuts_;
  std::vector<int64_t> sizes_;
  size_t tower_ = 0;  // that is being run
};

}  // namespace modular
