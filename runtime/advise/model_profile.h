// What a search has to know of a model: numbers of which a few plans tell all (profile_model.h), or closed forms.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace modular {

/// A quantity of which tensor-parallel ranks divide a part.
struct Share {
  double whole = 0.0, split = 0.0;
  double on(int64_t tp) const { return whole + split / static_cast<double>(tp); }
  double all() const { return whole + split; }
};

/// What a forward keeps for its backward, under one setting of parallel.recompute. Bytes are of one row.
struct Keeping {
  std::string setting = "\"none\"";  // as TOML has it
  double again = 0.0;                // forwards' time that the backward spends on computing again
  bool one_piece = false;            // whether a layer's backward cannot be cut in two
  Share activations = {};            // of all layers
  Share head = {};                   // of what only the last stage has
  Share working = {};                // what a forward or backward needs while it runs
  double summed_over_tp = 0.0;       // of the tensors that all tp ranks sum, forward and backward
  int64_t sums_over_tp = 0;          // exchanges of a micro-batch, of any number of rows
};

/// Of a pipeline's stages: how uneven they are.
struct StageShares {
  double fullest_rank = 1.0;     // share of the layers that the rank with most of them holds
  double costliest_stage = 1.0;  // its multiplications over those of the mean
};

struct ModelProfile {
  Share root;          // parameters, elements: of what is in no unit
  Share units;         // of all units together
  Share largest_unit;  // of the unit with most
  Share last_unit;     // of the unit that runs last
  int64_t unit_count = 0, layers = 0;
  double flops_of_row = 0.0;  // forward and backward, nothing computed again
  int64_t tokens_of_row = 1;
  Share values = {};             // bytes of a row that a forward leaves where nothing is computed again
  double width = 0.0;            // the narrower side of the layers' matrices: what tp divides
  double boundary = 0.0;         // bytes of a row that cross a cut between stages, one way
  double optimizer_bytes = 8.0;  // an element's state
  double gathered_bytes = 4.0;   // of an element as it is computed with: 2 in bfloat16
  int64_t prefetch = 1;
  std::vector<Keeping> keepings = {Keeping{}};
  /// By pipeline ranks, stages per rank, and whether they lie as a V; even where not given.
  std::map<std::tuple<int64_t, int64_t, bool>, StageShares> stages = {};

  double elements() const { return root.all() + units.all(); }
  StageShares stage_shares(int64_t pp, int64_t stages_per_rank, bool is_v) const;
};

}  // namespace modular
