// Model properties that the layout search needs, from a few plans (profile_model.h) or closed forms.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace modular {

/// A quantity that is partly replicated and partly split over tensor-parallel ranks.
struct TpSplit {
  double replicated = 0.0, split = 0.0;
  /// Amount per rank.
  double on(int64_t tp) const { return replicated + split / static_cast<double>(tp); }
  double all() const { return replicated + split; }
};

/// What a forward saves for its backward with one value of parallel.recompute. Bytes per row.
struct Keeping {
  std::string setting = "\"none\"";  // value of parallel.recompute, as TOML
  double recomputed = 0.0;           // recomputation time in the backward, as a fraction of the forward
  bool one_piece = false;            // whether a layer's backward cannot be split into input and weight parts
  TpSplit activations = {};          // all layers
  TpSplit head = {};                 // activations of the last stage only
  TpSplit working = {};              // temporary memory of a running forward or backward
  double summed_over_tp = 0.0;       // size of the tensors all-reduced over tp, forward and backward
  int64_t sums_over_tp = 0;          // all-reduces per micro-batch, regardless of its rows
};

/// Imbalance of a pipeline's stages.
struct StageShares {
  double fullest_rank = 1.0;     // fraction of all layers on the rank with the most layers
  double costliest_stage = 1.0;  // FLOPs of the costliest stage relative to the mean
};

struct ModelProfile {
  TpSplit root;          // parameter elements outside of units
  TpSplit units;         // parameter elements of all units
  TpSplit largest_unit;  // parameter elements of the largest unit
  TpSplit last_unit;     // parameter elements of the unit that runs last
  int64_t unit_count = 0, layers = 0;
  double flops_of_row = 0.0;  // FLOPs per row, forward and backward, without recomputation
  int64_t tokens_of_row = 1;
  TpSplit values = {};           // activation bytes per row without recomputation
  double width = 0.0;            // mean smaller dimension of the layers' matrices, which tp splits
  double boundary = 0.0;         // bytes per row that cross a stage boundary, one way
  double optimizer_bytes = 8.0;  // optimizer state per element
  double gathered_bytes = 4.0;   // bytes per element of the compute dtype: 2 for bfloat16
  int64_t prefetch = 1;
  std::vector<Keeping> keepings = {Keeping{}};
  /// Keyed by pipeline ranks, stages per rank, and whether the schedule is a V. Missing entries count as balanced.
  std::map<std::tuple<int64_t, int64_t, bool>, StageShares> stages = {};

  double elements() const { return root.all() + units.all(); }
  StageShares stage_shares(int64_t pp, int64_t stages_per_rank, bool is_v) const;
};

}  // namespace modular
