// Order in which partitions read samples that are stored in row groups: each partition reads complete groups of its
// own.
#pragma once

#include <cstdint>
#include <vector>

namespace modular {

class PartitionOrder {
 public:
  /// `rows_of_groups`: number of rows of each group, in file order; group g belongs to partition g modulo `partitions`.
  PartitionOrder(std::vector<int64_t> rows_of_groups, int64_t partitions);

  /// The samples at positions [begin, end) of the order given by `seed`. Position p is read by partition p modulo the
  /// number of partitions. In each pass over the samples, which has its own order, a partition reads its groups in a
  /// random order, and the rows of each group in a random order. A partition with fewer rows than its share of the pass
  /// ends with rows that others leave over, so that a pass has each sample once.
  std::vector<int64_t> samples_at(int64_t begin, int64_t end, uint64_t seed) const;

 private:
  struct Pass;

  std::vector<int64_t> begin_;  // first row of each group, and last the total number of rows
  std::vector<int64_t> rows_;   // rows per partition
  int64_t partitions_;
};

}  // namespace modular
