// Convolutions and recurrences over the positions of all context-parallel ranks: each run of positions is computed by
// itself, from the last positions before it, or by adding what the state before it contributes.
#pragma once

#include <vector>

#include "runtime/model/cp.h"

namespace modular::detail {

/// The index of a run among those of all ranks, which are equally long.
inline int64_t index_of(const cp::Run& run) { return run.begin / run.size; }

/// Calls `compute(first row, run, index among this rank's runs)` for this rank's runs of x, and joins the results along
/// dimension 1.
/// - x [batch, seq, ...]
template <class Compute>
Tensor over_runs(const Tensor& x, const Compute& compute) {
  std::vector<Tensor> results;
  int64_t row = 0;
  for (const cp::Run& run : bound.context->runs(x.size(1))) {
    results.push_back(compute(row, run, results.size()));
    row += run.size;
  }
  return at::cat(results, 1);
}

/// The `count` positions before each of this rank's runs; zeros before the first position.
/// - x [batch, seq, ...]
/// - returns for each run [batch, count, ...]
inline std::vector<Tensor> positions_before(const Tensor& x, int64_t count) {
  const std::vector<cp::Run> runs = bound.context->runs(x.size(1));
  TORCH_CHECK(runs.front().size >= count, "a convolution over ", count + 1, " positions, of runs of ",
              runs.front().size, " positions of context-parallel ranks: choose a smaller parallel.cp");
  std::vector<Tensor> ends, before;
  int64_t end = 0;
  for (const cp::Run& run : runs) ends.push_back(x.narrow(1, (end += run.size) - count, count));
  const Tensor all = bound.context->gather(at::cat(ends, 1), 1);
  // Every rank's graph has the gather: its backward is collective.
  for (const cp::Run& run : runs)
    before.push_back(index_of(run) == 0 ? all.narrow(1, 0, count) * 0
                                        : all.narrow(1, (index_of(run) - 1) * count, count));
  return before;
}

/// A run of a recurrence that starts from a state of zeros.
struct RunStates {
  Tensor last;  // [batch, ...]: the state after the run
  Tensor kept;  // the factor by which the run multiplies the state before it, of a shape that broadcasts to `last`
};

/// The state before each of this rank's runs.
/// - returns for each run [batch, ...]
inline std::vector<Tensor> states_before(const std::vector<cp::Run>& runs, const std::vector<RunStates>& own) {
  std::vector<Tensor> sent;
  for (const RunStates& run : own) sent.push_back(at::cat({run.last.flatten(1), run.kept.flatten(1)}, 1));
  const Tensor all = bound.context->gather(at::stack(sent, 1), 1);  // [batch, runs of all ranks, elements]
  const auto of_last = own.front().last.sizes(), of_kept = own.front().kept.sizes();
  const int64_t size = own.front().last.numel() / of_last[0];
  std::vector<Tensor> before(own.size());
  Tensor state = all.select(1, 0).narrow(1, 0, size).view(of_last) * 0;
  for (int64_t index = 0; index < all.size(1); ++index) {
    for (size_t i = 0; i < own.size(); ++i)
      if (index_of(runs[i]) == index) before[i] = state;
    const Tensor run = all.select(1, index);
    state = run.narrow(1, size, run.size(1) - size).view(of_kept) * state + run.narrow(1, 0, size).view(of_last);
  }
  return before;
}

}  // namespace modular::detail
