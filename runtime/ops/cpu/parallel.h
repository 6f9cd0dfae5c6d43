// Parallel loops on libtorch's own threads.
#pragma once

#include <c10/util/FunctionRef.h>

#include <algorithm>
#include <cstdint>

namespace modular::cpu {

/// Minimum number of elements per thread.
inline constexpr int64_t kGrain = 16384;

/// Minimum number of rows of `row_length` elements per thread.
inline int64_t rows_per_piece(int64_t row_length) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, row_length));
}

/// Calls `work(first, last)` on disjoint pieces of [0, count), each of at least `grain`, on libtorch's intra-op
/// threads.
void parallel_ranges(int64_t count, int64_t grain, c10::function_ref<void(int64_t first, int64_t last)> work);

/// The maximum number of pieces that parallel_ranges creates.
int64_t parallel_width();

/// Splits rows into one piece per usable thread, for sums over rows with one partial sum per piece. The result depends
/// on the number of threads and on nothing else.
struct RowPieces {
  int64_t rows, count;

  RowPieces(int64_t rows, int64_t row_length)
      : rows(rows), count(std::max<int64_t>(1, std::min(parallel_width(), rows / rows_per_piece(row_length)))) {}

  /// Calls `work(piece, first, last)` for the rows of each piece.
  template <class Work>
  void for_each(Work&& work) const {
    const int64_t piece_size = (rows + count - 1) / count;
    parallel_ranges(count, 1, [&](int64_t first_piece, int64_t last_piece) {
      for (int64_t piece = first_piece; piece < last_piece; ++piece)
        work(piece, std::min(rows, piece * piece_size), std::min(rows, (piece + 1) * piece_size));
    });
  }
};

}  // namespace modular::cpu
