// Sharding of a dimension over tensor-parallel ranks.
#pragma once

#include <algorithm>
#include <cstdint>

namespace modular {

/// A run of elements that is sharded over tp on its own.
struct SplitPart {
  int64_t size = 0;
  // For KV heads: maximum number of slices. If there are more ranks, consecutive ranks form KV replication groups that
  // hold the same slice. 0: each rank has its own slice.
  int64_t slices = 0;
  bool may_be_uneven = false;  // a vocabulary: if the ranks do not divide it, the last ranks hold fewer rows or none
};

/// Elements [begin, begin + size) of a part.
struct PartSlice {
  int64_t begin = 0, size = 0;
  int64_t kv_replicas = 1;  // size of the KV replication group that holds the same slice
  bool owner = true;        // true on the first rank of the group
};

/// Returns the slice of `part` that rank `tp_rank` of `tp` holds; slices have the lengths of torch.chunk. If the part
/// has a number of slices, `tp` must be a multiple of it.
inline PartSlice to_part_slice(const SplitPart& part, int64_t tp, int64_t tp_rank) {
  const int64_t slices = part.slices > 0 ? std::min(part.slices, tp) : tp, kv_replicas = tp / slices;
  const int64_t longest = (part.size + slices - 1) / slices;
  const int64_t begin = std::min(tp_rank / kv_replicas * longest, part.size);
  return {begin, std::min(longest, part.size - begin), kv_replicas, tp_rank % kv_replicas == 0};
}

}  // namespace modular
