// Attention of the few queries of a step of generation over the keys that a cache has kept. All query heads that share
// a head of keys and values meet a block of these while it is in the core's cache, so that each is read once.
#pragma once

#include <cstdint>

#include "runtime/ops/cpu/attention_kernel.h"
#include "runtime/ops/cpu/kernels.h"

namespace modular::cpu {

struct CachedAttentionShape {
  int64_t seq, keys, dim, value_dim;  // the queries are the last of the keys
  int64_t group;                      // query heads that share the head of keys and values
  float scale, softcap;               // scores stay within ±softcap; 0 for none
  bool causal;
  int64_t reach;          // how far away a key may stand
  const bool* present;    // [keys] false for a key that no query sees; null where all are seen
  Strides query, output;  // of query heads
  int64_t key_row, value_row;
};

constexpr int64_t cached_attention_scratch(const CachedAttentionShape& shape) {
  return shape.group * shape.seq * (shape.dim + shape.keys);
}

/// Writes what each query mixes; 0 for one that sees no key. Scratch holds cached_attention_scratch(shape) floats.
template <class T>
using CachedAttention = void (*)(const CachedAttentionShape& shape, const T* query, const T* key, const T* value,
                                 T* output, float* scratch);

/// The kernel for this processor. T is float or Bf16.
template <class T>
CachedAttention<T> cached_attention_kernel();

}  // namespace modular::cpu
