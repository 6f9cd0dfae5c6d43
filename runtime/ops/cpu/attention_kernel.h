// Attention of one key/value head and the query heads that share it, over plain memory. Like FlashAttention (Dao et
// al.), it never materializes all scores: each block of queries is combined with spans of keys that fit in a core's
// cache.
#pragma once

#include <cstdint>

#include "runtime/ops/cpu/kernels.h"

namespace modular::cpu {

/// Number of queries per block. Scratch memory and key ranges are aligned to it.
inline constexpr int64_t kQueryBlock = 32;

/// Rounds up to a multiple of kQueryBlock.
constexpr int64_t padded(int64_t count) { return (count + kQueryBlock - 1) / kQueryBlock * kQueryBlock; }

/// Half-open range of key positions.
struct KeyRange {
  int64_t first, last;
};

/// Strides of vectors: position s of query head g is at pointer + g * head + s * row.
struct Strides {
  int64_t head, row;
};

struct AttentionShape {
  int64_t seq, keys, dim;
  int64_t group;  // query heads that share the key/value head
  float scale;
  const KeyRange* visible;   // [seq]: visible keys of each query, before the next two fields hide some
  const bool* present;       // [keys] false for a key that no query sees; null if the ranges exclude all of those
  const int64_t* documents;  // [keys]: a query sees only its own document; null if the ranges ensure that. The queries
                             // are the last of the keys
  Strides query, output;     // of query heads; `output` also describes its gradient
  int64_t key_row, value_row;
  const float* biases;  // of the first query head: rows of [keys] with strides `bias`; null for none
  Strides bias;
  const Drop* drop;  // of the weights: columns are keys, rows queries, `plane` the first query head; null for none
};

template <class T>
struct AttentionKernels {
  /// Writes the output and log(sum(exp(scores))) [group, seq]; with biases, log(sum(exp(scores - the row's largest))),
  /// because biases that hide keys may be so large that they absorb the log. Scratch holds forward_scratch(shape)
  /// floats.
  void (*forward)(const AttentionShape& shape, const T* query, const T* key, const T* value, T* output,
                  float* log_sum_exp, float* scratch);
  /// Writes dquery (with the strides of shape.output), and dkey and dvalue with `dkey_row` elements between positions.
  /// Adds the gradient of the biases to `dbiases` [group, seq, keys] if it is not null.
  void (*backward)(const AttentionShape& shape, const T* query, const T* key, const T* value, const T* output,
                   const T* grad, const float* log_sum_exp, T* dquery, T* dkey, T* dvalue, int64_t dkey_row,
                   float* dbiases, float* scratch);
};

/// Head sizes are padded to full GEMM panels.
constexpr int64_t padded_dim(int64_t dim) { return padded(dim); }

/// Stride between the rows of a block's scores. The padding avoids powers of two, with which rows share few L1 cache
/// sets.
constexpr int64_t row_width(int64_t keys) { return padded(keys) + kQueryBlock; }

constexpr int64_t forward_scratch(const AttentionShape& shape) {
  return (2 * padded(shape.keys) + padded(shape.seq)) * padded_dim(shape.dim) + 2 * padded(shape.seq) +
         kQueryBlock * (2 * row_width(shape.keys) + 2 * padded_dim(shape.dim));
}
constexpr int64_t backward_scratch(const AttentionShape& shape) {
  return (5 * padded(shape.keys) + padded(shape.seq)) * padded_dim(shape.dim) +
         kQueryBlock * (4 * row_width(shape.keys) + 3 * padded_dim(shape.dim));
}

/// The kernels for this CPU. T is float or Bf16.
template <class T>
const AttentionKernels<T>& attention_kernels();

// Attention of the few queries of a generation step over cached keys. All query heads that share a key/value head
// process a block of keys while it is in the core's cache, so each key is read once.

struct CachedAttentionShape {
  int64_t seq, keys, dim, value_dim;  // the queries are the last of the keys
  int64_t group;                      // query heads that share the key/value head
  float scale, softcap;               // scores are capped to ±softcap; 0 for no cap
  bool causal;
  int64_t reach;          // maximum distance of a visible key
  const bool* present;    // [keys] false for a key that no query sees; null if all are visible
  Strides query, output;  // of query heads
  int64_t key_row, value_row;
};

constexpr int64_t cached_attention_scratch(const CachedAttentionShape& shape) {
  return shape.group * shape.seq * (shape.dim + shape.keys);
}

/// Writes each query's output; 0 for a query that sees no key. Scratch holds cached_attention_scratch(shape) floats.
template <class T>
using CachedAttention = void (*)(const CachedAttentionShape& shape, const T* query, const T* key, const T* value,
                                 T* output, float* scratch);

/// The kernel for this CPU. T is float or Bf16.
template <class T>
CachedAttention<T> cached_attention_kernel();

}  // namespace modular::cpu
