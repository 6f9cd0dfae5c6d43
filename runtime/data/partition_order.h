// The order in which partitions draw samples that are stored in row groups: each from whole groups of its own.
#pragma once

#include <cstdint>
#include <vector>

namespace modular {

class PartitionOrder {
 public:
  /// Row groups of so many rows, each after the other; group g is of partition g modulo `partitions`.
  PartitionOrder(std::vector<int64_t> rows_of_groups, int64_t partitions);

  /// The samples at positions [begin, end) of the order that `seed` chooses. Position p is drawn by partition p modulo
  /// the number of partitions. In each pass over the samples, which has its own order, a partition draws from its
  /// groups in a random order, in each from its rows in a random order; where one has fewer rows than its share of the
  /// pass, it ends with rows that are left to others, so that a pass has each sample once.
  std::vector<int64_t> samples_at(int64_t begin, int64_t end, uint64_t seed) const;

 private:
  struct Pass;

  std::vector<int64_t> begin_;  // where each group's rows begin, and last the number of all
  std::vector<int64_t> rows_;   // of each partition
  int64_t partitions_;
};

}  // namespace modular
