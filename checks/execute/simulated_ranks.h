// Tensor-parallel, context-parallel and data-parallel ranks as threads of one process. They compute what the runtime's
// ranks compute, in the precision of their operands: collectives are exact sums in the order of the ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "checks/execute/contract_in_double.h"

namespace modular::execute {

/// Numbers of ranks along the axes, and how they divide positions.
struct Grid {
  int64_t tp = 1, cp = 1, dp = 1;
  bool sequence = false;  // whether tensor-parallel ranks have parts of the positions between layers
  /// Whether cp rank r of n has the r-th and the r-th last of 2n runs of positions, and attention is by all-to-all
  /// where `cp` divides them. Otherwise it has the r-th of n runs, and attention gathers keys and values.
  bool zigzag = false;

  int64_t ranks() const { return tp * cp * dp; }
};

/// A rank's index along each axis.
struct GridRank {
  int64_t tp = 0, cp = 0, dp = 0;
};

/// The index of a rank among those of `grid`: tp varies fastest, then cp.
inline size_t index_of(const GridRank& rank, const Grid& grid) {
  return static_cast<size_t>((rank.dp * grid.cp + rank.cp) * grid.tp + rank.tp);
}

/// The positions of a context-parallel rank of `grid`, along `dim` of a tensor that has all of them.
Tensor take_context_positions(const Tensor& all, int64_t dim, const Grid& grid, int64_t cp_rank);

/// The inverse: all positions, of what each context-parallel rank has.
Tensor join_context_positions(const std::vector<Tensor>& by_rank, int64_t dim, const Grid& grid);

/// Runs `body` on all ranks of `grid` at once, each bound to its interfaces. Throws what the first failing rank threw.
/// A rank that waits for one that has ended, or that calls another collective than the others, fails too.
void on_simulated_ranks(const Grid& grid, const std::function<void(const GridRank&)>& body);

/// The same for `size` tensor-parallel ranks.
void on_simulated_ranks(int64_t size, const std::function<void(int64_t rank)>& body);

}  // namespace modular::execute
