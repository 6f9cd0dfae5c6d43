// Tensor-parallel and data-parallel ranks as threads of one process. They compute what the runtime's ranks compute, in
// the precision of their operands: collectives are exact sums in the order of the ranks.
#pragma once

#include <cstdint>
#include <functional>

namespace modular::execute {

/// Numbers of ranks along the two axes, and whether tensor-parallel ranks have parts of the positions between layers.
struct Grid {
  int64_t tp = 1, dp = 1;
  bool sequence = false;
};

/// Runs `body(tp_rank, dp_rank)` on all ranks of `grid` at once, each bound to its interfaces. Throws what the first
/// failing rank threw. A rank that waits for one that has ended, or that calls another collective than the others,
/// fails too.
void on_simulated_ranks(const Grid& grid, const std::function<void(int64_t tp_rank, int64_t dp_rank)>& body);

/// The same for `size` tensor-parallel ranks.
void on_simulated_ranks(int64_t size, const std::function<void(int64_t rank)>& body);

}  // namespace modular::execute
