// Work over ranges on libtorch's own threads.
#pragma once

#include <c10/util/FunctionRef.h>

#include <algorithm>
#include <cstdint>

namespace modular::cpu {

/// A piece of work on fewer elements is not worth a thread.
inline constexpr int64_t kGrain = 16384;

/// The least rows of `row_length` elements that are worth a thread.
inline int64_t rows_per_piece(int64_t row_length) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, row_length));
}

/// Calls `work(first, last)` on disjoint pieces of [0, count) from libtorch's intra-op threads; pieces of at least
/// `grain`.
void parallel_ranges(int64_t count, int64_t grain, c10::function_ref<void(int64_t first, int64_t last)> work);

/// The most pieces that parallel_ranges makes.
int64_t parallel_width();

}  // namespace modular::cpu
