// Which positions of a sequence each context-parallel rank has.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/model/cp.h"
#include "runtime/model/tensors.h"

namespace modular {

/// A sequence of any length that is cut into equal runs, of which each rank has as many.
struct DealtRuns {
  int64_t ranks = 1;
  std::vector<int64_t> numbers;  // [ranks, runs of a rank]: indices of runs in the sequence, ascending for each rank

  int64_t runs_of_a_rank() const { return static_cast<int64_t>(numbers.size()) / ranks; }
  /// The positions of a rank, ascending, if each rank has `count`, a multiple of runs_of_a_rank().
  std::vector<cp::Run> of(int64_t rank, int64_t count) const;
};

/// Rank r of n has the r-th of n runs.
DealtRuns contiguous_runs(int64_t ranks);

/// Rank r of n has the r-th and the r-th last of 2n runs.
DealtRuns zigzag_runs(int64_t ranks);

/// Deals runs so that the sums of their costs are about the same on all ranks: the costliest run first, each to the
/// rank with the least cost so far among those that lack runs (Graham's longest processing time rule, with as many runs
/// on every rank). Equal costs give equal results on every rank.
/// - costs [runs of all ranks]: a multiple of `ranks`
DealtRuns balanced_runs(std::span<const int64_t> costs, int64_t ranks);

/// The number of runs that each rank has of a sequence of `length` tokens in the balanced layout: 16, or the largest
/// smaller power of two that leaves runs of at least 4 tokens; at least 1. Runs of fewer tokens would have a call of an
/// attention kernel each, and convolutions need the positions before a run from one other run.
int64_t balanced_run_count(int64_t length, int64_t ranks);

/// The number of positions of each rank, of which it has `runs` equal runs, for sequences of `length` tokens. Some of
/// the positions may be padding.
int64_t positions_of_rank(int64_t length, int64_t ranks, int64_t runs);

/// The number of visible keys of each of `runs` equal runs of the sequences of a batch in host memory, summed over
/// positions and rows: keys of the same document that are not padding, and with a causal mask not later than the query.
/// Windows of attention do not count.
/// - padded: the number of positions with the padding that cutting adds, a multiple of `runs`
std::vector<int64_t> visible_keys_of_runs(const Batch& batch, int64_t runs, int64_t padded, bool causal);

}  // namespace modular
