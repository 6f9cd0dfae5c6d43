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

/// Rows in as many pieces as there are threads for them, for sums over rows of which each piece has its own: what they
/// give depends on the number of threads and on nothing else.
struct RowPieces {
  int64_t rows, count;

  RowPieces(int64_t rows, int64_t row_length)
      : rows(rows), count(std::max<int64_t>(1, std::min(parallel_width(), rows / rows_per_piece(row_length)))) {}

  /// Calls `work(piece, first, last)` for the rows of each.
  template <class Work>
  void for_each(Work&& work) const {
    const int64_t of_piece = (rows + count - 1) / count;
    parallel_ranges(count, 1, [&](int64_t first_piece, int64_t last_piece) {
      for (int64_t piece = first_piece; piece < last_piece; ++piece)
        work(piece, std::min(rows, piece * of_piece), std::min(rows, (piece + 1) * of_piece));
    });
  }
};

}  // namespace modular::cpu
