// Tensor-parallel ranks as threads of one process. They compute what the runtime's ranks compute, in whatever precision
// they are given: collectives are exact sums in the order of the ranks.
#pragma once

#include <cstdint>
#include <functional>

namespace modular::testing {

/// Runs `body(rank)` on `size` ranks at once, each bound to its part. Throws what the first of them threw;
/// ranks that wait for one that has ended, or that meet in different collectives, throw too.
void on_simulated_ranks(int64_t size, const std::function<void(int64_t rank)>& body);

}  // namespace modular::testing
