// Attention of one key/value head and the query heads that share it, over plain memory. Like FlashAttention (Dao et
// al.) it never holds all scores: a block of queries at a time meets all keys that it sees, which fit in a core's
// cache.
#pragma once

#include <cstdint>

#include "runtime/ops/cpu/kernels.h"

namespace modular::cpu {

/// Queries of a block. Scratch and key ranges are laid out by it.
inline constexpr int64_t kQueryBlock = 32;

/// Rounded up to whole blocks.
constexpr int64_t padded(int64_t count) { return (count + kQueryBlock - 1) / kQueryBlock * kQueryBlock; }

/// From one position to before another.
struct KeyRange {
  int64_t first, last;
};

/// Where a vector of position s of query head g is: pointer + g * head + s * row.
struct Strides {
  int64_t head, row;
};

struct AttentionShape {
  int64_t seq, keys, dim;
  int64_t group;  // query heads that share the key/value head
  float scale;
  const KeyRange* visible;   // [seq]: the keys that each query sees, but for those that the next two hide
  const bool* present;       // [keys] false for a key that no query sees; null where ranges leave all of them out
  const int64_t* documents;  // [keys]: a query sees the keys of its own; null where ranges hold no others
  Strides query, output;     // of query heads; `output` holds for its gradient as well
  int64_t key_row, value_row;
  const float* biases;  // of the first query head's scores: rows of [keys], `bias` apart; null for none
  Strides bias;
  const Drop* drop;  // of the shares: columns are keys, rows queries, `plane` the first query head; null for none
};

template <class T>
struct AttentionKernels {
  /// Writes output and log(sum(exp(scores))) [group, seq], with biases log(sum(exp(scores - the row's largest))):
  /// biases that hide keys may be so large that a sum beside them is lost. Scratch holds forward_scratch(shape) floats.
  void (*forward)(const AttentionShape& shape, const T* query, const T* key, const T* value, T* output,
                  float* log_sum_exp, float* scratch);
  /// Writes dquery (laid out as shape.output), and dkey and dvalue with `dkey_row` elements between positions. Adds the
  /// gradient of the biases to `dbiases` [group, seq, keys], where it is not null.
  void (*backward)(const AttentionShape& shape, const T* query, const T* key, const T* value, const T* output,
                   const T* grad, const float* log_sum_exp, T* dquery, T* dkey, T* dvalue, int64_t dkey_row,
                   float* dbiases, float* scratch);
};

/// Head sizes are padded to whole panels of the products.
constexpr int64_t padded_dim(int64_t dim) { return padded(dim); }

/// From one row of a block's scores to the next: rows a power of two apart would share few sets of the first cache.
constexpr int64_t row_width(int64_t keys) { return padded(keys) + kQueryBlock; }

constexpr int64_t forward_scratch(const AttentionShape& shape) {
  return 2 * padded(shape.keys) * padded_dim(shape.dim) +
         kQueryBlock * (2 * row_width(shape.keys) + 2 * padded_dim(shape.dim));
}
constexpr int64_t backward_scratch(const AttentionShape& shape) {
  return 5 * padded(shape.keys) * padded_dim(shape.dim) +
         kQueryBlock * (4 * row_width(shape.keys) + 3 * padded_dim(shape.dim));
}

/// The kernels for this processor. T is float or Bf16.
template <class T>
const AttentionKernels<T>& attention_kernels();

}  // namespace modular::cpu
