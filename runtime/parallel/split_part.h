// What each tensor-parallel rank keeps of a dimension that is split.
#pragma once

#include <algorithm>
#include <cstdint>

namespace modular {

/// A run of elements of which each tp rank keeps a slice.
struct SplitPart {
  int64_t size = 0;
  // Heads that serve several others: it has at most so many slices, each of which neighbouring ranks keep where the
  // ranks are more. 0: each rank has its own.
  int64_t slices = 0;
  bool may_be_uneven = false;  // a vocabulary: the last ranks keep less, or nothing, where the ranks do not divide it
};

/// Elements [begin, begin + size) of a part.
struct PartSlice {
  int64_t begin = 0, size = 0;
  int64_t sharers = 1;  // neighbouring ranks that keep the same
  bool owner = true;    // true on the first of them
};

/// What rank `tp_rank` of `tp` keeps of `part`: slices are as long as torch.chunk makes them. `tp` is a multiple of the
/// slices of a part that has a number of them.
inline PartSlice to_part_slice(const SplitPart& part, int64_t tp, int64_t tp_rank) {
  const int64_t slices = part.slices > 0 ? std::min(part.slices, tp) : tp, sharers = tp / slices;
  const int64_t longest = (part.size + slices - 1) / slices;
  const int64_t begin = std::min(tp_rank / sharers * longest, part.size);
  return {begin, std::min(longest, part.size - begin), sharers, tp_rank % sharers == 0};
}

}  // namespace modular
