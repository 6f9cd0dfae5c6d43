// What a run learns from, sample by sample.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/data/partition_order.h"
#include "runtime/model/tensors.h"

namespace modular {

/// A sample of a batch.
struct SamplePosition {
  int64_t sample = 0;    // its number in the data
  int64_t position = 0;  // its place in the run's order, which is another one each time that it is seen
};

class Samples {
 public:
  virtual ~Samples() = default;

  /// Samples in one pass over the data.
  virtual int64_t count() const = 0;

  /// Tokens that a model reads of a sample; 1 where it reads none.
  virtual int64_t tokens() const = 0;

  /// The samples at `places` as a batch of `samples` samples on the CPU, labels set; those after them have no targets.
  /// Each sample is as many rows as it has texts. Throws DataError where the data is not what the model reads.
  virtual Batch read(std::span<const SamplePosition> places, int64_t samples) const = 0;

  /// `batch` without the padding that none of these samples needs, which are those of a whole step: all ranks cut
  /// alike.
  virtual Batch cut(Batch batch, std::span<const int64_t>) const { return batch; }

  /// How long a sample is, for samples of like length to come together; 0 where all are alike.
  virtual int64_t length(int64_t) const { return 0; }

  /// The order that partitions draw samples in; null where all are in one random order.
  virtual const PartitionOrder* partition_order() const { return nullptr; }
};

}  // namespace modular
