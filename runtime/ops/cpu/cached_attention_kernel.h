// Attention of the few queries of a generation step over cached keys. All query heads that share a key/value head
// process a block of keys while it is in the core's cache, so each key is read once.
#pragma once

#include <cstdint>

#include "runtime/ops/cpu/attention_kernel.h"
#include "runtime/ops/cpu/kernels.h"

namespace modular::cpu {

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
