// Which samples are read, and in which order: random orders of all samples and of row groups, and parts of a dataset.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/data/dataset.h"

namespace modular {

/// Element at `index` of a random order of 0 … count - 1, given by `key`; 0 <= index < count. The order has random
/// access and takes no memory: a Feistel network (Luby & Rackoff, How to construct pseudorandom permutations), iterated
/// until the result is inside the range (Black & Rogaway, Ciphers with arbitrary finite domains).
int64_t permuted(int64_t index, int64_t count, uint64_t key);

/// Order in which partitions read samples that are stored in row groups: each partition reads complete groups of its
/// own.
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

/// A contiguous part of a dataset, which hides the other samples.
class SampleRange final : public Dataset {
 public:
  /// Samples [first, first + count) of `all`.
  SampleRange(std::unique_ptr<Dataset> all, int64_t first, int64_t count)
      : all_(std::move(all)), first_(first), count_(count) {}

  int64_t count() const override { return count_; }
  int64_t tokens() const override { return all_->tokens(); }
  Batch read(std::span<const SamplePosition> positions, int64_t samples) const override;
  Batch cut(Batch batch, std::span<const int64_t> step) const override;
  int64_t length(int64_t sample) const override { return all_->length(first_ + sample); }
  /// Of all samples, including the hidden ones.
  void validate() const override { all_->validate(); }
  const Examples* examples() const override { return all_->examples(); }

 private:
  std::unique_ptr<Dataset> all_;
  int64_t first_, count_;
};

/// Number of validation samples: the last `part` (from 0 to 1) of `samples`; at least one, and 0 if there are fewer
/// than two samples.
int64_t count_validation_samples(int64_t samples, double part);

}  // namespace modular
